//! A platform that takes replies, refuses them, or leaves its outcome open, as a test says.

use bridge_core::port::{MayAct, Probe, Sink, SinkClass, SinkFault, SinkTraits};
use bridge_core::value::{Class, Failure, Message, Reply, Twin};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// How the platform meets one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Not taken; may work later.
    Refuses,
    /// Nobody knows; it was taken or not.
    Unknown { taken: bool },
    /// Taken, after this time.
    Slow(Duration),
    /// The task that sends it panics; it was not taken.
    Panics,
}

#[derive(Debug, Default)]
struct Known {
    moods: VecDeque<Mood>,
    refuses_until: Option<Instant>,
    probeable: bool,
    /// By key, in the order of their appearance.
    seen: Vec<(String, String)>,
    receipts: BTreeMap<String, String>,
    hints: Vec<String>,
    sends: u32,
    probes: u32,
}

/// The scripted platform.
#[derive(Clone, Debug, Default)]
pub(super) struct ScriptedPlatform(Arc<Mutex<Known>>);

impl ScriptedPlatform {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap()
    }

    pub(super) fn be(&self, mood: Mood) {
        self.known().moods.push_back(mood);
    }

    pub(super) fn refuse_for(&self, time: Duration) {
        self.known().refuses_until = Some(Instant::now() + time);
    }

    pub(super) fn probeable(&self) {
        self.known().probeable = true;
    }

    /// Texts that people saw; one that was shown twice is here twice.
    pub(super) fn visible(&self) -> Vec<String> {
        let known = self.known();
        known.seen.iter().map(|(_, text)| text.clone()).collect()
    }

    /// Lines about long turns.
    pub(super) fn hints(&self) -> Vec<String> {
        self.known().hints.clone()
    }

    pub(super) fn sends(&self) -> u32 {
        self.known().sends
    }

    pub(super) fn probes(&self) -> u32 {
        self.known().probes
    }
}

impl Known {
    /// Shows a reply. Only a platform that dedupes shows a key once.
    fn take(&mut self, reply: &Reply) -> String {
        let key = reply.key.to_string();
        let receipt = format!("receipt of {key}");
        if self.probeable || !self.receipts.contains_key(&key) {
            self.seen.push((key.clone(), reply.body.clone()));
        }
        self.receipts.insert(key, receipt.clone());
        receipt
    }
}

fn fault(class: Class) -> SinkFault {
    SinkFault {
        failure: Failure::new(class, "as the script says"),
    }
}

impl Sink for ScriptedPlatform {
    fn traits(&self, _message: &Message) -> SinkTraits {
        let class = if self.known().probeable {
            SinkClass::Probeable
        } else {
            SinkClass::Idempotent
        };
        SinkTraits {
            class,
            max_chars: None,
        }
    }

    async fn send(
        &self,
        _message: &Message,
        reply: &Reply,
        may_act: MayAct<'_>,
    ) -> Result<String, SinkFault> {
        let mood = {
            let mut known = self.known();
            known.sends += 1;
            if known
                .refuses_until
                .is_some_and(|until| Instant::now() < until)
            {
                return Err(fault(Class::Transient));
            }
            known.moods.pop_front()
        };
        match mood {
            None => {
                may_act()?;
                Ok(self.known().take(reply))
            }
            Some(Mood::Refuses) => Err(fault(Class::Transient)),
            Some(Mood::Unknown { taken }) => {
                if taken {
                    self.known().take(reply);
                }
                Err(fault(Class::Ambiguous))
            }
            Some(Mood::Panics) => panic!("as the script says"),
            Some(Mood::Slow(time)) => {
                let mut end = tokio::time::interval_at(Instant::now() + time, time);
                end.tick().await;
                may_act()?;
                Ok(self.known().take(reply))
            }
        }
    }

    async fn probe(
        &self,
        _message: &Message,
        reply: &Reply,
        _twins: &[Twin],
    ) -> Result<Probe, SinkFault> {
        let mut known = self.known();
        known.probes += 1;
        Ok(match known.receipts.get(reply.key.as_str()) {
            Some(receipt) => Probe::Present {
                receipt: receipt.clone(),
            },
            None => Probe::Absent,
        })
    }

    async fn hint(&self, _message: &Message, text: &str) -> Result<(), SinkFault> {
        self.known().hints.push(text.to_owned());
        Ok(())
    }
}
