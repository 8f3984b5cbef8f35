//! Processes that an earlier daemon left: those that turns run on are attached to, the others are ended.

use crate::app_server::{Host, IDLE_STOP_GRACE, Life, TransportChoice, describe};
use crate::binary::program::{Probation, Program};
use crate::binary::stamp::BinaryStamp;
use crate::error::agent_error;
use crate::keeper::launch::{self, KeeperHold};
use crate::process;
use crate::thread::release;
use bridge_core::port::Ledger;
use bridge_core::value::{Class, Incarnation, Transport};
use std::path::Path;
use std::sync::Arc;

impl<L: Ledger> Host<L> {
    /// Attaches to what an earlier daemon left of this home: the newest takes turns, the one before it ends those that it
    /// has. The rest is ended. What is wanted now may be another Codex: it is changed to as at any other time.
    pub(crate) async fn adopt(self: &Arc<Self>, mut left: Vec<Incarnation>) {
        left.sort_by_key(|incarnation| std::cmp::Reverse(incarnation.started_at));
        let mut state = self.state.lock().await;
        for incarnation in left {
            self.learned.transcripts.recall(&incarnation);
            let ours = process::boot_id().is_ok_and(|boot| boot == incarnation.boot_id)
                && process::alive(&incarnation.keeper);
            let wanted = ours
                && incarnation.codex_home == self.home
                && state.draining.is_none()
                && incarnation.transport == Transport::Socket
                && self.options.transport != TransportChoice::Only(Transport::Stdio);
            if wanted && let Some(life) = self.attach(&incarnation).await {
                match state.current {
                    None => state.current = Some(life),
                    Some(_) => state.draining = Some(life),
                }
                continue;
            }
            if ours {
                tracing::info!(incarnation = %incarnation.incarnation_id, "ending a codex process of an earlier daemon");
                launch::stop(&incarnation, KeeperHold::Child, IDLE_STOP_GRACE).await;
            }
            if let Some(why) = launch::lease_end(&incarnation) {
                tracing::warn!(why, incarnation = %incarnation.incarnation_id, "the codex process of an earlier daemon was ended");
            }
            launch::remove_directory(&incarnation);
            self.record_gone(&incarnation.incarnation_id).await;
        }
        self.drain(&state);
        let current = state.current.as_ref();
        if current.is_some_and(|(it, _)| !Arc::ptr_eq(&it.program, &self.wanted.get())) {
            self.look_again.notify_one();
        }
    }

    /// What a process of an earlier daemon was started from.
    fn program_of(&self, incarnation: &Incarnation) -> Arc<Program> {
        let wanted = self.wanted.get();
        let stamp = BinaryStamp::read(Path::new(&incarnation.directory));
        match stamp {
            Some(stamp) if !wanted.is_of(&stamp) => {
                tracing::warn!(started_from = %stamp.path.display(), codex = %wanted.codex.display(), "an earlier daemon left a process of another codex: it goes on until the one that is wanted now takes new turns");
                Arc::new(Program {
                    codex: stamp.path.clone(),
                    native: Ok(stamp.path.clone()),
                    version: incarnation.codex_version.clone(),
                    stamp: Some(stamp),
                    probation: Probation::none(),
                })
            }
            Some(_) | None => wanted,
        }
    }

    async fn attach(&self, incarnation: &Incarnation) -> Option<Life> {
        let program = self.program_of(incarnation);
        let attached = match launch::adopt(incarnation, self.options.launch.lease.as_ref()).await {
            Ok(launched) => self.handshake(launched, &program).await,
            Err(error) => Err(agent_error(Class::Transient, error.to_string())),
        };
        match attached {
            Ok((session, hold)) => {
                // Before anybody loads one: what is loaded from here on is not left over.
                match release::loaded(&session.connection).await {
                    Ok(threads) => session.connection.threads.found_loaded(threads),
                    Err(error) => {
                        tracing::debug!(%error, "codex does not say which threads it has loaded")
                    }
                }
                tracing::info!(incarnation = %incarnation.incarnation_id, codex = %describe(&session.incarnation), "attached to the codex process of an earlier daemon");
                Some((Arc::new(session), hold))
            }
            Err(error) => {
                tracing::warn!(%error, "could not attach to the codex process of an earlier daemon");
                None
            }
        }
    }
}
