//! The story of one schedule: always as a digest, in words when somebody wants to read it.

use std::fmt;

const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// What happened so far.
#[derive(Debug)]
pub(crate) struct Trace {
    digest: u64,
    told: bool,
}

impl Trace {
    pub(crate) fn new(told: bool) -> Self {
        Self {
            digest: START,
            told,
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn note(&mut self, at_ms: u64, what: fmt::Arguments<'_>) {
        fmt::write(self, format_args!("{at_ms} {what}")).unwrap();
        if self.told {
            println!("{:>9}.{:03}  {what}", at_ms / 1000, at_ms % 1000);
        }
    }
}

impl fmt::Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}
