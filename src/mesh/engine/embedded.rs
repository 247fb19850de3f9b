//! The engine for one `serve`: one folder, no set-up, safe against a crash at any instant.
//!
//! SQLite in WAL mode with `synchronous=FULL`: a write that was acknowledged survives a power cut. One
//! connection behind one lock writes and reads; a write takes a fraction of a millisecond, so a call
//! runs where it is made. The folder is locked: a second `serve` on it is refused, because two that
//! each hold the fleet in memory would not see each other's changes (C74).

use super::large::{Draft, Folder};
use super::{Answer, Engine, Entry, KEY_BYTES_MAX, Put, Revision, VALUE_BYTES_MAX};
use crate::model::Digest;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// See the module.
pub struct Embedded {
    connection: Mutex<Connection>,
    watches: Mutex<Vec<(String, watch::Sender<u64>)>>,
    large: Folder,
    /// Held as long as the engine lives; the kernel lets go of it however the process ends.
    _lock: File,
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS entry (
        key TEXT PRIMARY KEY, revision INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS counter (only INTEGER PRIMARY KEY CHECK (only = 1), revision INTEGER NOT NULL);
    INSERT OR IGNORE INTO counter VALUES (1, 0);
";

impl Embedded {
    /// Opens the store in `folder`, makes it if need be.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = lock(folder)?;
        let connection = Connection::open(folder.join("mesh.db")).map_err(broken)?;
        connection.busy_timeout(Duration::from_secs(5)).map_err(broken)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(broken)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(broken)?;
        connection.execute_batch(SCHEMA).map_err(broken)?;
        let large = Folder::open(&folder.join("large"))?;
        Ok(Embedded {
            connection: Mutex::new(connection),
            watches: Mutex::new(Vec::new()),
            large,
            _lock: lock,
        })
    }

    fn read(&self, key: &str) -> io::Result<Option<Entry>> {
        let connection = hold(&self.connection);
        let mut query =
            connection.prepare_cached("SELECT revision, value FROM entry WHERE key = ?1").map_err(broken)?;
        query.query_row([key], |row| Ok(entry(row.get(0)?, row.get(1)?))).optional().map_err(broken)
    }

    fn write(&self, key: &str, revision: Revision, value: &[u8]) -> io::Result<Put> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            let text = format!("key '{key}' with {} bytes is over the limits of the store", value.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut connection = hold(&self.connection);
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(broken)?;
        let next: i64 = change
            .prepare_cached("UPDATE counter SET revision = revision + 1 RETURNING revision")
            .and_then(|mut query| query.query_row([], |row| row.get(0)))
            .map_err(broken)?;
        let sql = if revision == 0 {
            "INSERT INTO entry (key, revision, value) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING"
        } else {
            "UPDATE entry SET revision = ?2, value = ?3 WHERE key = ?1 AND revision = ?4"
        };
        let mut statement = change.prepare_cached(sql).map_err(broken)?;
        let changed = if revision == 0 {
            statement.execute(params![key, next, value])
        } else {
            statement.execute(params![key, next, value, revision.cast_signed()])
        };
        drop(statement);
        if changed.map_err(broken)? == 0 {
            // Dropping the transaction rolls the counter back.
            return Ok(Put::Conflict);
        }
        change.commit().map_err(broken)?;
        drop(connection);
        self.tell(key);
        Ok(Put::Stored(next.cast_unsigned()))
    }

    fn read_all(&self, prefix: &str) -> io::Result<Vec<(String, Entry)>> {
        let connection = hold(&self.connection);
        // A range and not LIKE: keys hold '_' and '%' as plain characters. Keys are ASCII, so the
        // largest character ends the range.
        let mut query = connection
            .prepare_cached(
                "SELECT key, revision, value FROM entry WHERE key >= ?1 AND key < ?2 ORDER BY key",
            )
            .map_err(broken)?;
        let rows = query
            .query_map([prefix, &format!("{prefix}\u{10ffff}")], |row| {
                Ok((row.get(0)?, entry(row.get(1)?, row.get(2)?)))
            })
            .map_err(broken)?;
        rows.collect::<Result<_, _>>().map_err(broken)
    }

    fn tell(&self, key: &str) {
        let mut watches = hold(&self.watches);
        watches.retain(|(_, sender)| !sender.is_closed());
        for (_, sender) in watches.iter().filter(|(prefix, _)| key.starts_with(prefix.as_str())) {
            sender.send_modify(|count| *count += 1);
        }
    }
}

impl Engine for Embedded {
    fn get<'a>(&'a self, key: &'a str) -> Answer<'a, Option<Entry>> {
        Box::pin(async move { self.read(key) })
    }

    fn put_if<'a>(&'a self, key: &'a str, revision: Revision, value: Vec<u8>) -> Answer<'a, Put> {
        Box::pin(async move { self.write(key, revision, &value) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<(String, Entry)>> {
        Box::pin(async move { self.read_all(prefix) })
    }

    fn watch(&self, prefix: &str) -> watch::Receiver<u64> {
        let (sender, receiver) = watch::channel(0);
        hold(&self.watches).push((prefix.to_owned(), sender));
        receiver
    }

    fn begin_large(&self) -> io::Result<Draft> {
        self.large.begin()
    }

    fn keep_large(&self, draft: Draft) -> Answer<'_, (Digest, u64)> {
        Box::pin(async move { self.large.keep(draft) })
    }

    fn open_large<'a>(&'a self, digest: &'a Digest) -> Answer<'a, Option<(File, u64)>> {
        Box::pin(async move { self.large.open_value(digest) })
    }
}

fn entry(revision: i64, value: Vec<u8>) -> Entry {
    Entry { revision: revision.cast_unsigned(), value }
}

/// A thread that died while it held the lock left no half change: changes are transactions.
fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broken(error: rusqlite::Error) -> io::Error {
    io::Error::other(format!("the mesh's store: {error}"))
}

fn lock(folder: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(folder.join("lock"))?;
    let wanted = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&file, wanted).map_err(|_| {
        let text = format!("{} is in use by another nox-mesh serve", folder.display());
        io::Error::new(io::ErrorKind::ResourceBusy, text)
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::engine::suite;
    use crate::mesh::trial::Folder;

    #[tokio::test]
    async fn the_suite_of_every_engine() {
        let folder = Folder::new("embedded-suite");
        suite::all(&Embedded::open(folder.path()).unwrap()).await;
    }

    #[test]
    fn c43_every_write_is_synced() {
        let folder = Folder::new("embedded-pragmas");
        let engine = Embedded::open(folder.path()).unwrap();
        let connection = hold(&engine.connection);
        let read = |pragma: &str| {
            connection
                .pragma_query_value(None, pragma, |row| row.get::<_, rusqlite::types::Value>(0))
                .unwrap()
        };
        assert_eq!(read("journal_mode"), rusqlite::types::Value::Text("wal".into()));
        assert_eq!(read("synchronous"), rusqlite::types::Value::Integer(2), "2 is FULL");
    }

    #[tokio::test]
    async fn what_was_acknowledged_is_there_after_a_new_start() {
        let folder = Folder::new("embedded-again");
        let first = Embedded::open(folder.path()).unwrap();
        let stored = first.put_if("a", 0, b"1".to_vec()).await.unwrap();
        let mut draft = first.begin_large().unwrap();
        draft.write(b"half of it").unwrap();
        // As after a kill: nothing is dropped in order, only the lock goes.
        std::mem::forget(draft);
        drop(first);
        let again = Embedded::open(folder.path()).unwrap();
        let entry = again.get("a").await.unwrap().unwrap();
        assert_eq!((Put::Stored(entry.revision), entry.value), (stored, b"1".to_vec()));
        assert_eq!(std::fs::read_dir(folder.path().join("large")).unwrap().count(), 0, "a draft stayed");
        assert!(matches!(again.put_if("b", 0, vec![]).await.unwrap(), Put::Stored(r) if r > entry.revision));
    }

    #[tokio::test]
    async fn c74_a_folder_has_one_owner() {
        let folder = Folder::new("embedded-lock");
        let _first = Embedded::open(folder.path()).unwrap();
        let said = Embedded::open(folder.path()).err().unwrap().to_string();
        assert!(said.contains("in use by another"), "{said}");
    }
}
