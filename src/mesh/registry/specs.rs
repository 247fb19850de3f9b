//! Declared resources, stored once under their hash: a fleet of one configuration holds one text.

use crate::mesh::engine::{Put, Store};
use crate::mesh::fault::Fault;
use crate::model::Digest;
use crate::sys::crypt::sha256;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

const DEFAULT_KEY: &str = "default-spec";
/// Nothing declared.
const EMPTY: &str = "[]";

/// Texts by hash, and which of them a node gets that joins.
pub struct Specs {
    texts: RwLock<BTreeMap<Digest, Arc<str>>>,
    default: RwLock<Digest>,
}

impl Specs {
    /// Reads all of them.
    pub async fn open(store: &Store) -> Result<Self, Fault> {
        let empty = digest_of(EMPTY);
        let mut texts = BTreeMap::from([(empty, Arc::from(EMPTY))]);
        for (_, entry) in store.list("spec/").await? {
            let text = String::from_utf8(entry.value).map_err(|error| damaged(&error))?;
            texts.insert(digest_of(&text), Arc::from(text));
        }
        let default = match store.get(DEFAULT_KEY).await? {
            None => empty,
            Some(entry) => {
                let text = String::from_utf8(entry.value).map_err(|error| damaged(&error))?;
                text.parse().map_err(|error| damaged(&error))?
            }
        };
        Ok(Specs { texts: RwLock::new(texts), default: RwLock::new(default) })
    }

    /// The text of a hash.
    pub fn get(&self, digest: &Digest) -> Result<Arc<str>, Fault> {
        let texts = self.texts.read().unwrap_or_else(PoisonError::into_inner);
        texts.get(digest).cloned().ok_or_else(|| damaged(&"a declared text is missing").into())
    }

    /// What a node gets that joins.
    pub fn default_spec(&self) -> Digest {
        *self.default.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a text.
    pub async fn keep(&self, store: &Store, text: String) -> Result<Digest, Fault> {
        let digest = digest_of(&text);
        // A conflict says that the very same text is there already.
        store.put_if(&format!("spec/{digest}"), 0, text.clone().into_bytes()).await?;
        self.texts.write().unwrap_or_else(PoisonError::into_inner).insert(digest, Arc::from(text));
        Ok(digest)
    }

    /// Stores what nodes get that join from now on.
    pub async fn keep_default(&self, store: &Store, digest: Digest) -> Result<(), Fault> {
        loop {
            let revision = store.get(DEFAULT_KEY).await?.map_or(0, |entry| entry.revision);
            let value = digest.to_string().into_bytes();
            if let Put::Stored(_) = store.put_if(DEFAULT_KEY, revision, value).await? {
                *self.default.write().unwrap_or_else(PoisonError::into_inner) = digest;
                return Ok(());
            }
        }
    }
}

fn digest_of(text: &str) -> Digest {
    Digest::new(sha256(text.as_bytes()))
}

fn damaged(error: &impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the mesh's store: {}", error.to_string()))
}
