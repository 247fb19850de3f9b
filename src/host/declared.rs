//! The declarations that the node holds: the newest accepted one, the last one that a reconcile got
//! through, and the one that is in force.
//!
//! Used by the loop. Verifies what comes over the link and what is read back from the disk in the same
//! way: envelope, signature over the exact bytes, own node, newer generation. What is refused changes
//! nothing but the report.

use super::life::confirm::Standing;
use super::life::quarantine::{Verdict, judge};
use super::state::{Identity, State};
use crate::model::{Generation, Version};
use crate::sys::crypt;
use crate::wire::declaration::{self, Document};
use crate::wire::envelope::Envelope;
use crate::wire::limits;

const NEWEST: &str = "declaration";
const GOOD: &str = "declaration.good";

/// What is declared.
#[derive(Debug, Default)]
pub struct Declared {
    /// What the loop applies; none: nothing is to be changed.
    pub in_force: Option<Document>,
    /// Generation of the newest accepted declaration; 0: none.
    pub accepted: Generation,
    /// Generation of the last one that a reconcile got through; 0: none.
    pub good: Generation,
    /// The accepted generation, if it is set aside.
    pub set_aside: Option<Generation>,
    /// Why the last one that was offered was refused.
    pub refusal: Option<String>,
    /// Whether this process got through what is in force.
    pub is_through: bool,
}

impl Declared {
    /// What lies in the state folder.
    pub fn load(state: &State, identity: &Identity) -> Self {
        let good = read_back(state, GOOD, identity);
        let newest = read_back(state, NEWEST, identity);
        let good_generation = good.as_ref().map_or(0, |document| document.generation);
        // A lost newest one falls back to the last good one; the mesh sends the newest again.
        let in_force = newest.or(good);
        let accepted = in_force.as_ref().map_or(0, |document| document.generation);
        Declared { in_force, accepted, good: good_generation, ..Declared::default() }
    }

    /// Takes an envelope from the mesh; true if it is in force now.
    pub fn offer(&mut self, state: &State, identity: &Identity, bytes: &[u8]) -> bool {
        let offered = verify(bytes, identity).and_then(|document| {
            declaration::accept(&document, &identity.node, self.accepted)
                .map_err(|refusal| refusal.to_string())?;
            // Not stored is not accepted: after a restart it would never have been there.
            state.store(NEWEST, bytes).map_err(|error| format!("it cannot be stored: {error}"))?;
            Ok(document)
        });
        match offered {
            Ok(document) => {
                log::info!("declaration {} accepted", document.generation);
                self.accepted = document.generation;
                self.in_force = Some(document);
                self.refusal = None;
                self.set_aside = None;
                self.is_through = false;
                true
            }
            Err(why) => {
                log::error!("a declaration is refused: {why}");
                self.refuse(why);
                false
            }
        }
    }

    /// Notes why the last one offered is not taken.
    pub fn refuse(&mut self, why: String) {
        self.refusal = Some(why);
    }

    /// Before a reconcile: the write-ahead mark, or the generation is set aside (C93).
    pub fn begin(&mut self, state: &State, identity: &Identity, running: &Version, confirmed: bool) {
        if self.is_through {
            return;
        }
        let mark = state.mark();
        if let Some((generation, version)) = state.quarantined()
            && generation == self.accepted
            && version == *running
            && self.set_aside.is_none()
        {
            self.fall_back(state, identity);
        }
        // Twice at the most: the accepted one, then the good one.
        for _ in 0..2 {
            let Some(document) = &self.in_force else { return };
            let good = Some(self.good).filter(|good| *good > 0);
            match judge(mark.as_ref(), document.generation, running, confirmed, good) {
                Verdict::Apply(mark) => {
                    if let Err(error) = state.store_mark(&mark) {
                        log::error!("the mark 'applying' cannot be written: {error}");
                    }
                    return;
                }
                Verdict::SetAside if self.set_aside.is_some() => {
                    log::error!("the last good declaration ends the host too: nothing is applied");
                    self.in_force = None;
                }
                Verdict::SetAside => {
                    if let Some(mark) = &mark
                        && let Err(error) = state.store_quarantined(mark)
                    {
                        log::error!("'set-aside' cannot be written: {error}");
                    }
                    self.fall_back(state, identity);
                }
            }
        }
    }

    fn fall_back(&mut self, state: &State, identity: &Identity) {
        let why =
            format!("declaration {} ended the host twice while it was applied: set aside", self.accepted);
        log::error!("{why}");
        self.set_aside = Some(self.accepted);
        self.in_force = read_back(state, GOOD, identity).filter(|good| good.generation != self.accepted);
        self.refuse(why);
    }

    /// How things stand for a confirmation of the running version.
    pub fn standing(&self, running: &Version, install_runs: bool) -> Standing {
        Standing {
            holds_declaration: self.in_force.is_some(),
            full_reconcile: self.is_through,
            set_aside: self.set_aside.is_some(),
            install_runs,
            proper_version: *running != Version::zero(),
        }
    }

    /// After a full reconcile: the mark is cleared, and what was got through is the last good one.
    pub fn end(&mut self, state: &State) -> std::io::Result<()> {
        if self.is_through {
            return Ok(());
        }
        self.is_through = true;
        let generation = self.in_force.as_ref().map_or(0, |document| document.generation);
        if generation != 0 && generation == self.accepted && generation != self.good {
            if let Some(bytes) = state.bytes(NEWEST, limits::ENVELOPE_BYTES_MAX) {
                state.store(GOOD, &bytes)?;
            }
            self.good = generation;
        }
        self.leave_off(state)
    }

    /// The reconcile ended early because the host was asked to stop: no crash, no mark.
    pub fn leave_off(&self, state: &State) -> std::io::Result<()> {
        state.remove("applying")
    }
}

fn read_back(state: &State, name: &str, identity: &Identity) -> Option<Document> {
    let bytes = state.bytes(name, limits::ENVELOPE_BYTES_MAX)?;
    let document = verify(&bytes, identity).and_then(|document| {
        declaration::accept(&document, &identity.node, 0).map_err(|refusal| refusal.to_string())?;
        Ok(document)
    });
    document.map_err(|why| state.set_aside(name, &why)).ok()
}

fn verify(bytes: &[u8], identity: &Identity) -> Result<Document, String> {
    let envelope = Envelope::read(bytes).map_err(|error| error.to_string())?;
    if envelope.key != identity.declaration_key_id {
        return Err(format!("it is signed by the unknown key '{}'", limits::cut(&envelope.key, 64)));
    }
    let text = envelope.declaration;
    if !crypt::verify(&identity.declaration_key, text.as_bytes(), &envelope.signature) {
        return Err("its signature is not that of the mesh".into());
    }
    declaration::read(&text).map_err(|refusal| refusal.to_string())
}

#[cfg(test)]
#[path = "declared_tests.rs"]
mod tests;
