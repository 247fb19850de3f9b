//! The link against a peer of any manners, over real TLS on loopback.

use super::*;
use crate::host::peer::{Authority, reply, serve};
use crate::sys::{clock, crypt};
use std::io::Write;
use std::net::TcpListener;

fn waiter() -> Arc<Waiter> {
    Arc::new(Waiter::plain().unwrap())
}

fn link(url: &str, authority: &Authority) -> Link {
    Link::new(url, Pin::Certificate(authority.ca.clone()), waiter()).unwrap()
}

fn poll(link: &Link) -> Result<Option<Vec<u8>>, Trouble> {
    link.declaration(0, Duration::from_secs(5))
}

#[test]
fn a_long_poll_brings_a_declaration_or_nothing_over_one_connection() {
    let authority = Authority::new();
    let (url, seen) = serve(&authority, |request, wire| {
        if request.line.contains("after=0") {
            reply(wire, "200 OK", "", b"envelope")
        } else {
            reply(wire, "204 No Content", "", b"")
        }
    });
    let link = link(&url, &authority);
    for _ in 0..3 {
        assert_eq!(poll(&link).unwrap().unwrap(), b"envelope");
        assert!(link.declaration(7, Duration::from_secs(5)).unwrap().is_none());
    }
    assert_eq!(seen.lock().unwrap()[1].line, "GET /v1/declaration?after=7&wait=5 HTTP/1.1");
}

#[test]
fn the_bell_ends_a_long_poll_at_once() {
    let authority = Authority::new();
    let (url, _) = serve(&authority, |_, _| {
        std::thread::sleep(Duration::from_secs(30));
        false
    });
    let waiter = waiter();
    let link = Link::new(&url, Pin::Certificate(authority.ca.clone()), waiter.clone()).unwrap();
    let bell = waiter.bell();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        bell.ring();
    });
    let began = clock::monotonic();
    assert!(matches!(poll(&link), Err(Trouble::Disturbed)));
    assert!(clock::monotonic() - began < Duration::from_secs(5));
    assert!(waiter.take_bell(), "it is left for the loop");
}

#[test]
fn a_body_of_50_megabytes_is_cut_off_while_it_is_read() {
    let authority = Authority::new();
    let (done, sent) = std::sync::mpsc::channel();
    let (url, _) = serve(&authority, move |_, wire| {
        let _ = wire.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n");
        let piece = vec![b' '; 1_000_000];
        done.send((0..50).take_while(|_| wire.write_all(&piece).is_ok()).count()).unwrap();
        false
    });
    let Err(Trouble::Nonsense(what)) = poll(&link(&url, &authority)) else { panic!("taken") };
    assert_eq!(what, "it is larger than 2101248 bytes");
    let sent = sent.recv().unwrap();
    assert!(sent < 20, "{sent} megabytes were taken");
}

#[test]
fn errors_carry_the_mesh_s_words_and_its_wish_for_calm() {
    let authority = Authority::new();
    let (url, _) = serve(&authority, |request, wire| match request.line.as_str() {
        line if line.starts_with("POST") => {
            reply(wire, "429 Too Many Requests", "retry-after: 7\r\n", br#"{"error":"too many"}"#)
        }
        line if line.contains("wait=5") => reply(wire, "503 Unavailable", "", b"<html>"),
        _ => reply(wire, "302 Found", "location: https://elsewhere/\r\n", b""),
    });
    let link = link(&url, &authority);
    let trouble = link.heartbeat(&Heartbeat::default()).unwrap_err();
    assert_eq!(trouble.to_string(), "the mesh refuses (429): too many");
    assert_eq!(trouble.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(poll(&link).unwrap_err().to_string(), "the mesh refuses (503): <html>");
    let redirect = link.declaration(0, Duration::from_secs(1)).unwrap_err();
    assert!(redirect.to_string().contains("302"), "no redirect is followed: {redirect}");
}

#[test]
fn nonsense_is_an_error_and_nothing_more() {
    let authority = Authority::new();
    for answer in
        ["", "HTTP/9 x\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", "\0\0\0\0\r\n\r\n"]
    {
        let (url, _) = serve(&authority, move |_, wire| {
            let _ = wire.write_all(answer.as_bytes());
            false
        });
        let said = poll(&link(&url, &authority));
        assert!(said.is_err(), "{answer:?}: {said:?}");
    }
    let (url, _) = serve(&authority, |_, wire| reply(wire, "200 OK", "", b"[]"));
    assert!(matches!(link(&url, &authority).heartbeat(&Heartbeat::default()), Err(Trouble::Nonsense(_))));
}

#[test]
fn only_the_pinned_ca_is_believed() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (url, seen) = serve(&authority, |_, wire| reply(wire, "204 No Content", "", b""));
    let tried = |pin| poll(&Link::new(&url, pin, waiter()).unwrap());
    assert!(tried(Pin::Certificate(authority.ca.clone())).is_ok());
    assert!(tried(Pin::Fingerprint(crypt::sha256(&authority.ca))).is_ok());
    let before = seen.lock().unwrap().len();
    for pin in [
        Pin::Certificate(stranger.ca.clone()),
        Pin::Certificate(vec![1, 2, 3]),
        Pin::Fingerprint(crypt::sha256(&stranger.ca)),
        Pin::Fingerprint([0; 32]),
    ] {
        let said = tried(pin.clone());
        assert!(matches!(said, Err(Trouble::Unreachable(_))), "{pin:?}: {said:?}");
    }
    assert_eq!(seen.lock().unwrap().len(), before, "nothing was said to a stranger");
}

#[test]
fn a_certificate_for_another_name_is_not_believed() {
    let authority = Authority::for_names(&["mesh.example".into()], |_| {});
    let (url, _) = serve(&authority, |_, wire| reply(wire, "204 No Content", "", b""));
    assert!(poll(&link(&url, &authority)).is_err());
}

#[test]
fn c88_c89_a_clock_that_is_wrong_does_not_silence_the_node() {
    for (from, to) in [(2001, 2002), (2090, 2091)] {
        let authority = Authority::for_names(&["127.0.0.1".into()], |parameters| {
            parameters.not_before = rcgen::date_time_ymd(from, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(to, 1, 1);
        });
        let (url, _) = serve(&authority, |_, wire| reply(wire, "204 No Content", "", b""));
        assert!(poll(&link(&url, &authority)).is_ok(), "valid from {from} to {to}");
    }
}

#[test]
fn a_peer_that_never_answers_is_given_up() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let agent = tls::client(Pin::Certificate(authority.ca), waiter(), "test").unwrap();
    let began = clock::monotonic();
    let said = agent.get(&url).config().timeout_connect(Some(Duration::from_millis(300))).build().call();
    assert!(matches!(said, Err(ureq::Error::Timeout(_) | ureq::Error::Io(_))), "{said:?}");
    assert!(clock::monotonic() - began < Duration::from_secs(10));
    drop(listener);
    assert!(matches!(agent.get(&url).call(), Err(ureq::Error::Io(_))), "nobody listens");
}

#[test]
fn a_package_goes_on_where_it_broke_off() {
    let authority = Authority::new();
    let (url, seen) = serve(&authority, |request, wire| match request.header("range") {
        None => reply(wire, "200 OK", "", b"0123456789"),
        Some(_) => {
            let headers = "content-range: bytes 4-9/10\r\n";
            reply(wire, "206 Partial Content", headers, b"456789")
        }
    });
    let link = link(&url, &authority);
    let digest: Digest = "ab".repeat(32).parse().unwrap();
    for (offset, wanted) in [(0, "0123456789"), (4, "456789")] {
        let mut piece = link.package(&digest, offset).unwrap();
        let mut text = String::new();
        piece.bytes.read_to_string(&mut text).unwrap();
        assert_eq!((piece.first, text.as_str()), (offset, wanted));
    }
    assert_eq!(seen.lock().unwrap()[1].header("range"), Some("bytes=4-"));
}
