//! The life of the host, as decisions: pure, so that every order of events can be tried in a test.
//!
//! ```text
//!            start
//!              │  an install runs? wait for it, decide nothing
//!              ▼
//!         unconfirmed ── full reconcile of the accepted declaration ──► confirmed (known-good)
//!              │                                                          │
//!              │ dies: the service manager and the rollback               │ declared version is another one
//!              ▼ script decide, never the host                            ▼
//!        record of the rollback ──► refused until a newer attempt    refused? held? pinned? unarmed?
//!                                                                         │ no
//!                                                                         ▼
//!                                            fetch ► preflight ► claim ► order ► install ► clean exit
//! ```
//!
//! The host judges neither itself nor its successor. Nothing in here has a clock, a file or a log; the
//! loop (`host::reconcile`) brings the facts and carries out the decisions.

pub mod backoff;
pub mod confirm;
pub mod quarantine;
pub mod refuse;
pub mod upgrade;

#[cfg(test)]
mod worlds;
