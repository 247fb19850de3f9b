//! What every engine promises, as functions over the trait: run by the tests of each engine.

use super::{Engine, Entry, Put, VALUE_BYTES_MAX};
use std::sync::atomic::{AtomicU64, Ordering};

/// All of it, on an empty store.
pub async fn all(engine: &dyn Engine) {
    put_and_get(engine).await;
    a_put_needs_the_current_revision(engine).await;
    lists_are_by_prefix_and_in_order(engine).await;
    a_watch_hints_at_changes_under_its_prefix(engine).await;
    one_of_many_racing_puts_wins(engine).await;
    large_values_are_kept_by_hash(engine).await;
    limits_hold(engine).await;
}

fn stored(put: Put) -> u64 {
    match put {
        Put::Stored(revision) => revision,
        Put::Conflict => panic!("a put that nobody contests was refused"),
    }
}

async fn put_and_get(engine: &dyn Engine) {
    assert_eq!(engine.get("s/one").await.unwrap(), None);
    let first = stored(engine.put_if("s/one", 0, b"1".to_vec()).await.unwrap());
    assert!(first > 0, "0 stands for 'no such key'");
    let wanted = Entry { revision: first, value: b"1".to_vec() };
    assert_eq!(engine.get("s/one").await.unwrap(), Some(wanted));
    let second = stored(engine.put_if("s/one", first, b"2".to_vec()).await.unwrap());
    assert!(second > first);
    assert_eq!(engine.get("s/one").await.unwrap().unwrap().value, b"2");
    let empty = stored(engine.put_if("s/empty", 0, Vec::new()).await.unwrap());
    let wanted = Entry { revision: empty, value: Vec::new() };
    assert_eq!(engine.get("s/empty").await.unwrap(), Some(wanted));
}

async fn a_put_needs_the_current_revision(engine: &dyn Engine) {
    let first = stored(engine.put_if("s/cas", 0, b"1".to_vec()).await.unwrap());
    let second = stored(engine.put_if("s/cas", first, b"2".to_vec()).await.unwrap());
    for stale in [0, first, second + 1, u64::MAX >> 1] {
        assert_eq!(engine.put_if("s/cas", stale, b"3".to_vec()).await.unwrap(), Put::Conflict, "{stale}");
    }
    let entry = engine.get("s/cas").await.unwrap().unwrap();
    assert_eq!((entry.revision, entry.value), (second, b"2".to_vec()), "a refused put changed something");
    assert_eq!(engine.put_if("s/absent", second, b"3".to_vec()).await.unwrap(), Put::Conflict);
    assert_eq!(engine.get("s/absent").await.unwrap(), None);
}

async fn lists_are_by_prefix_and_in_order(engine: &dyn Engine) {
    for key in ["l/b", "l/a", "l/a_", "l/a%", "l/a/x", "lx", "m"] {
        stored(engine.put_if(key, 0, key.as_bytes().to_vec()).await.unwrap());
    }
    let names = |list: Vec<(String, Entry)>| list.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(names(engine.list("l/").await.unwrap()), ["l/a", "l/a%", "l/a/x", "l/a_", "l/b"]);
    assert_eq!(names(engine.list("l/a_").await.unwrap()), ["l/a_"], "_ and % are plain characters");
    assert_eq!(names(engine.list("nothing/").await.unwrap()), Vec::<String>::new());
    for (key, entry) in engine.list("l/").await.unwrap() {
        assert_eq!(Some(entry), engine.get(&key).await.unwrap());
    }
}

async fn a_watch_hints_at_changes_under_its_prefix(engine: &dyn Engine) {
    let mut watch = engine.watch("w/");
    stored(engine.put_if("other", 0, vec![]).await.unwrap());
    assert!(!watch.has_changed().unwrap(), "a change elsewhere woke the watch");
    let revision = stored(engine.put_if("w/a", 0, vec![]).await.unwrap());
    watch.changed().await.unwrap();
    stored(engine.put_if("w/a", revision, vec![1]).await.unwrap());
    watch.changed().await.unwrap();
}

async fn one_of_many_racing_puts_wins(engine: &dyn Engine) {
    let base = stored(engine.put_if("s/race", 0, vec![]).await.unwrap());
    let wins = AtomicU64::new(0);
    let racer = |number: u8| {
        let wins = &wins;
        async move {
            if let Put::Stored(_) = engine.put_if("s/race", base, vec![number]).await.unwrap() {
                wins.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    tokio::join!(racer(1), racer(2), racer(3), racer(4), racer(5));
    assert_eq!(wins.load(Ordering::SeqCst), 1);
}

async fn large_values_are_kept_by_hash(engine: &dyn Engine) {
    let mut draft = engine.begin_large().unwrap();
    draft.write(b"a").unwrap();
    draft.write(b"bc").unwrap();
    let foretold = draft.digest();
    let (digest, length) = engine.keep_large(draft).await.unwrap();
    assert_eq!(digest, foretold);
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!((digest.to_string().as_str(), length), (known, 3));
    let read = |opened: Option<(std::fs::File, u64)>| {
        let (file, length) = opened.unwrap();
        assert_eq!(length, 3);
        std::io::read_to_string(file).unwrap()
    };
    assert_eq!(read(engine.open_large(&digest).await.unwrap()), "abc");
    let mut twice = engine.begin_large().unwrap();
    twice.write(b"abc").unwrap();
    assert_eq!(engine.keep_large(twice).await.unwrap(), (digest, 3));
    assert_eq!(read(engine.open_large(&digest).await.unwrap()), "abc");
    let absent = crate::model::Digest::new([7; 32]);
    assert!(engine.open_large(&absent).await.unwrap().is_none());
}

async fn limits_hold(engine: &dyn Engine) {
    assert!(engine.put_if("", 0, vec![]).await.is_err());
    assert!(engine.put_if(&"k".repeat(1000), 0, vec![]).await.is_err());
    assert!(engine.put_if("s/large", 0, vec![0; VALUE_BYTES_MAX + 1]).await.is_err());
    assert!(engine.put_if("s/large", 0, vec![0; VALUE_BYTES_MAX]).await.is_ok());
}
