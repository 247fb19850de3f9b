//! Where everything durable goes: get, put-if-revision, list, watch, and large values by hash.
//!
//! Called by the registry, the checkpoint of presence and the delivery driver. An engine knows keys and
//! bytes, never what they mean. Decisions are made by compare-and-swap on the revision alone; a watch is
//! only a hint to look. Two engines shall behave alike, so every promise here is a test in `suite`.

pub mod embedded;
pub mod large;
#[cfg(test)]
pub mod suite;

use crate::model::Digest;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;

/// Longest key, in bytes: two ids, a version and the words between them.
pub const KEY_BYTES_MAX: usize = 256;
/// Largest value, in bytes: the rollout of a hundred thousand nodes. What has no bound is a large value.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a call of an engine gives, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Grows with every write in the store; 0 stands for 'there is no such key yet'.
pub type Revision = u64;

/// A value and the revision that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The write that made it.
    pub revision: Revision,
    /// The bytes.
    pub value: Vec<u8>,
}

/// How a compare-and-swap ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Stored, durably, under this revision.
    Stored(Revision),
    /// Somebody else wrote since; nothing was changed.
    Conflict,
}

/// A store that keeps what it acknowledged.
pub trait Engine: Send + Sync {
    /// The value of a key.
    fn get<'a>(&'a self, key: &'a str) -> Answer<'a, Option<Entry>>;
    /// Stores `value` if the key's revision is still `revision`; durable once it says so.
    fn put_if<'a>(&'a self, key: &'a str, revision: Revision, value: Vec<u8>) -> Answer<'a, Put>;
    /// Every key that begins with `prefix`, in the order of keys.
    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<(String, Entry)>>;
    /// Changes whenever a key under `prefix` may have changed; carries no truth of its own.
    fn watch(&self, prefix: &str) -> watch::Receiver<u64>;
    /// Begins a large value: bytes go into it piece by piece, none of them is kept yet.
    fn begin_large(&self) -> io::Result<large::Draft>;
    /// Keeps a finished draft under its hash, durably; keeping the same bytes twice is one value.
    fn keep_large(&self, draft: large::Draft) -> Answer<'_, (Digest, u64)>;
    /// Opens a large value: the file and its length.
    fn open_large<'a>(&'a self, digest: &'a Digest) -> Answer<'a, Option<(std::fs::File, u64)>>;
}

/// The engine as the rest of the mesh holds it.
pub type Store = Arc<dyn Engine>;
