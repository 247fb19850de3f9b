//! Chance that can be repeated: a seed from the environment or from the system, printed by whoever draws.

use crate::room::Lab;
use crate::wait::Failure;

/// xorshift64.
pub struct Chance(u64);

impl Chance {
    /// `NOX_LAB_SEED`, or a new one; says which.
    pub fn new(lab: &Lab) -> Result<Chance, Failure> {
        let seed = match std::env::var("NOX_LAB_SEED") {
            Ok(text) => text.parse()?,
            Err(_) => {
                let mut bytes = [0_u8; 4];
                rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
                u64::from(u32::from_ne_bytes(bytes))
            }
        };
        lab.say(format!("seed {seed} (NOX_LAB_SEED={seed} repeats it)"));
        Ok(Chance(seed.max(1)))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
