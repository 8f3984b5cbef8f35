//! Loans, from the daemon's side: what is over is taken back, and what was said at the terminal is written down.
//!
//! Whoever lends asks through the API (`crate::api::loans`).

use crate::Daemon;
use crate::process::ids::{message_id, now};
use bridge_core::limits::{LOAN_RETRY_MS, LOAN_SENDERS_SCAN_MAX};
use bridge_core::port::{Agent, Ledger, LedgerError, Read, RowsError, Sink};
use bridge_core::requester::{is_local_owner, requester};
use bridge_core::step::{EndLoan, KeepLoan, LentTurn};
use bridge_core::value::{
    Conversation, ConversationId, Failure, Loan, Message, Sandbox, Tier, Timestamp,
};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Pause between two tries to take a thread back.
const RETRY: Duration = Duration::from_millis(LOAN_RETRY_MS.unsigned_abs());

/// What the daemon remembers of loans; rows say the rest.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    /// Conversations that are being taken back.
    under_way: Mutex<HashSet<ConversationId>>,
    /// A try to take one back has ended.
    pub(crate) tried: Notify,
}

impl Loans {
    fn under_way(&self) -> std::sync::MutexGuard<'_, HashSet<ConversationId>> {
        let held = self.under_way.lock();
        held.unwrap_or_else(PoisonError::into_inner)
    }
}

/// One conversation that is being taken back; also a task that panics lets go of it.
struct TakingBack<L, A, S> {
    daemon: Arc<Daemon<L, A, S>>,
    id: ConversationId,
}

impl<L, A, S> Drop for TakingBack<L, A, S> {
    fn drop(&mut self) {
        let loans = &self.daemon.turns.loans;
        loans.under_way().remove(&self.id);
        loans.tried.notify_waiters();
    }
}

/// The rows of a conversation that decide how it is lent.
#[derive(Clone, Debug)]
pub(crate) struct LentRows {
    pub(crate) conversation: Conversation,
    /// The newest message of a stranger, else the newest of all: its sender's tier is the sandbox of the terminal.
    pub(crate) message: Option<Message>,
    /// A turn runs in it.
    in_flight: bool,
    place: LoanPlace,
}

/// Where its thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoanPlace {
    Here,
    /// A living node has it, and sees to it.
    Elsewhere,
    /// Its node is gone, and what was said there with it.
    Gone,
}

impl LentRows {
    /// Who wrote in it beside the owner.
    pub(crate) fn stranger(&self) -> Option<String> {
        let message = self.message.as_ref();
        message
            .filter(|message| is_stranger(message))
            .map(requester)
    }

    pub(crate) fn load(rows: &dyn Read, id: &ConversationId) -> Result<Option<Self>, RowsError> {
        let Some(conversation) = rows.conversation(id)? else {
            return Ok(None);
        };
        let newest = rows.last_messages(id, LOAN_SENDERS_SCAN_MAX)?;
        let stranger = newest.iter().find(|message| is_stranger(message));
        Ok(Some(Self {
            message: stranger.or(newest.first()).cloned(),
            in_flight: rows.in_flight_of(id)?.is_some(),
            place: place(rows, id)?,
            conversation,
        }))
    }
}

fn place(rows: &dyn Read, id: &ConversationId) -> Result<LoanPlace, RowsError> {
    let holder = match rows.this_node() {
        None => None,
        Some(this) => rows
            .home(id)?
            .and_then(|home| home.node_id)
            .filter(|holder| *holder != this),
    };
    let Some(holder) = holder else {
        return Ok(LoanPlace::Here);
    };
    let lives = rows.node(&holder)?.is_some_and(|node| node.keeps());
    Ok(if lives {
        LoanPlace::Elsewhere
    } else {
        LoanPlace::Gone
    })
}

fn is_stranger(message: &Message) -> bool {
    message.tier != Tier::Owner && !is_local_owner(message)
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Begins to take back the loans whose time is over; returns when the next one ends.
    pub(crate) async fn take_back_due(self: &Arc<Self>) -> Option<Timestamp> {
        let loans = match self.ledger.read(|rows| rows.loans()).await {
            Ok(loans) => loans,
            Err(error) => {
                tracing::error!(%error, "loans can't be looked at");
                return Some(now().plus_ms(LOAN_RETRY_MS));
            }
        };
        for loan in loans {
            if !loan.is_over(now()) {
                // They are in the order of their ends.
                return Some(loan.until);
            }
            let id = loan.conversation_id.clone();
            if !self.turns.loans.under_way().insert(id.clone()) {
                continue;
            }
            let taking = TakingBack {
                daemon: Arc::clone(self),
                id,
            };
            let daemon = Arc::clone(self);
            self.spawn_for(loan.loan_id.clone(), async move {
                daemon.take_back(&loan).await;
                drop(taking);
            });
        }
        None
    }

    /// Tries until the thread is back. While a terminal has it open, the conversation's messages say that they wait for
    /// that.
    async fn take_back(self: &Arc<Self>, loan: &Loan) {
        loop {
            let Err(failure) = self.try_take_back(loan).await else {
                return;
            };
            let reason = crate::term::escape_line(&failure.reason).into_owned();
            tracing::debug!(conversation_id = %loan.conversation_id, reason, "a lent thread can't be taken back yet");
            self.settle(KeepLoan {
                conversation_id: loan.conversation_id.clone(),
                loan_id: loan.loan_id.clone(),
                error: failure.reason,
            })
            .await;
            self.turns.loans.tried.notify_waiters();
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = self.stopping.cancelled() => return,
                () = self.damaged.cancelled() => return,
            }
        }
    }

    async fn try_take_back(self: &Arc<Self>, loan: &Loan) -> Result<(), Failure> {
        let id = loan.conversation_id.clone();
        let read = self.ledger.read(move |rows| LentRows::load(rows, &id));
        let Some(lent) = read.await.map_err(of_ledger)? else {
            return Ok(());
        };
        let mut end = EndLoan {
            conversation_id: loan.conversation_id.clone(),
            loan_id: loan.loan_id.clone(),
            thread: lent.conversation.thread.clone(),
            said: Vec::new(),
            sandbox: Sandbox::ReadOnly,
            epoch: self.ledger.epoch(),
            boot_id: self.settings().start.boot_id.clone(),
        };
        match lent.place {
            LoanPlace::Elsewhere => return Ok(()),
            LoanPlace::Gone if self.waits_for_node(&lent.conversation).await? => return Ok(()),
            LoanPlace::Gone => {
                tracing::warn!(conversation_id = %loan.conversation_id, "the node with a lent conversation is gone; what was said at its terminal is not known");
            }
            // While a turn runs nobody could open it.
            LoanPlace::Here if lent.in_flight => {}
            LoanPlace::Here => self.read_terminal(&lent, &mut end).await?,
        }
        let ended = self.commit(end).await.map_err(of_ledger)?;
        if let Some(turns) = ended {
            tracing::info!(conversation_id = %loan.conversation_id, turns, "a lent conversation is back");
        }
        Ok(())
    }

    /// Whether the files of a node that is gone keep its conversation.
    async fn waits_for_node(&self, conversation: &Conversation) -> Result<bool, Failure> {
        let id = conversation.conversation_id.clone();
        let leaves = self.settings().claim(now()).leave_written;
        let read = self.ledger.read(move |rows| rows.wrote_files(&id));
        Ok(leaves && read.await.map_err(of_ledger)?)
    }

    /// Takes the thread's writer and reads what was said.
    async fn read_terminal(
        self: &Arc<Self>,
        lent: &LentRows,
        end: &mut EndLoan,
    ) -> Result<(), Failure> {
        let conversation = &lent.conversation;
        let (Some(thread), Some(message)) = (&conversation.thread, &lent.message) else {
            return Ok(());
        };
        let spec = self.spec_of(message, conversation).await?;
        let home = spec.codex_home.as_deref();
        self.agent
            .ready(home)
            .await
            .map_err(|error| error.failure)?;
        self.bring_thread(conversation, thread, &spec).await?;
        let after = conversation.last_turn.as_ref();
        let said = match self.agent.turns_of_others(thread, &spec, after).await {
            Ok(said) => said,
            // The next message finds that out as well, and goes on with a new thread.
            Err(error) if error.thread.is_some() => {
                let reason = crate::term::escape_line(&error.failure.reason).into_owned();
                tracing::warn!(%thread, reason, "the thread of a lent conversation is lost");
                Vec::new()
            }
            Err(error) => return Err(error.failure),
        };
        self.store_thread_of(message, conversation, thread)
            .await
            .map_err(|error| error.failure)?;
        end.sandbox = spec.sandbox;
        end.said = said
            .into_iter()
            .map(|turn| LentTurn {
                message_id: message_id(),
                turn,
            })
            .collect();
        Ok(())
    }
}

fn of_ledger(error: LedgerError) -> Failure {
    Failure::new(error.class(), error.to_string())
}
