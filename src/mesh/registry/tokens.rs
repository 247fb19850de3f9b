//! Join tokens: counted, expiring, stored as a hash. A use is taken by compare-and-swap, so that a
//! token for one machine joins one machine however many try at once.

use super::Registry;
use crate::mesh::engine::Put;
use crate::mesh::fault::Fault;
use crate::sys::crypt::{hex, random_secret, sha256};
use serde::{Deserialize, Serialize};

/// Longest life of a token, in seconds: one that lives for ever is a password that nobody changes.
pub const EXPIRES_SECONDS_MAX: u64 = 90 * 86_400;
/// Most uses of a token.
pub const USES_MAX: u64 = 100_000;

#[derive(Debug, Serialize, Deserialize)]
struct TokenRecord {
    uses_left: u64,
    expires_unix: u64,
}

fn key(token: &str) -> String {
    format!("token/{}", hex(&sha256(token.as_bytes())))
}

fn not_valid() -> Fault {
    let text = "the join token is not valid (used up, expired or never made): make a new one on the mesh \
                with 'nox-mesh token create'";
    Fault::NotYou(text.into())
}

impl Registry {
    /// Makes a token.
    pub async fn make_token(&self, uses: u64, expires_s: u64, now_unix: u64) -> Result<String, Fault> {
        if uses == 0 || uses > USES_MAX || expires_s == 0 || expires_s > EXPIRES_SECONDS_MAX {
            let days = EXPIRES_SECONDS_MAX / 86_400;
            let text = format!("a token has 1 to {USES_MAX} uses and lives for at most {days} days");
            return Err(Fault::Malformed(text));
        }
        let token = random_secret()?;
        let record = TokenRecord { uses_left: uses, expires_unix: now_unix + expires_s };
        self.store.put_if(&key(&token), 0, serde_json::to_vec(&record)?).await?;
        Ok(token)
    }

    /// Whether the token has a use left now.
    pub(super) async fn check_token(&self, token: &str, now_unix: u64) -> Result<(), Fault> {
        let entry = self.store.get(&key(token)).await?.ok_or_else(not_valid)?;
        let record: TokenRecord = serde_json::from_slice(&entry.value)?;
        if record.uses_left == 0 || now_unix >= record.expires_unix { Err(not_valid()) } else { Ok(()) }
    }

    /// Takes one use off.
    pub(super) async fn take_use(&self, token: &str, now_unix: u64) -> Result<(), Fault> {
        loop {
            let entry = self.store.get(&key(token)).await?.ok_or_else(not_valid)?;
            let mut record: TokenRecord = serde_json::from_slice(&entry.value)?;
            if record.uses_left == 0 || now_unix >= record.expires_unix {
                return Err(not_valid());
            }
            record.uses_left -= 1;
            let value = serde_json::to_vec(&record)?;
            if let Put::Stored(_) = self.store.put_if(&key(token), entry.revision, value).await? {
                return Ok(());
            }
        }
    }
}
