//! Loans: a person opens a conversation's thread in Codex's own terminal, and its messages wait.
//!
//! Codex lets one process write a thread. So a loan is a row that the scheduler passes over; the thread is released after
//! the commit, and the row goes when the bridge has the thread's writer again and knows what was said meanwhile.

use super::fleet::{self, MoveOutcome};
use super::{Action, RunError, Transition, Tx};
use crate::limits::{LOAN_PENDING_MS, LOAN_WAITING_MAX, REASON_MAX_CHARS, clip};
use crate::port::{Change, ForeignTurn, LoanChange, RowsError, TurnStatus};
use crate::requester::AT_TERMINAL;
use crate::value::{
    Answer, AnswerSource, BootId, ClientId, Conversation, ConversationId, Epoch, EventKind,
    ExternalId, IncarnationId, Life, Loan, LoanId, Message, MessageId, MessageState, NodeId, Round,
    Sandbox, SenderKind, Seq, StateName, ThreadId, Tier, Timestamp, Turn, TurnId, TurnState, Usage,
};

/// What a person sees of a turn that ended well and said nothing.
const NO_TEXT: &str = "(Codex finished this turn without a text answer.)";

/// Lends a conversation. The same loan may be asked for again: while a turn runs, it waits for the end of that.
#[derive(Clone, Debug)]
pub struct Lend {
    pub conversation_id: ConversationId,
    pub loan_id: LoanId,
    pub borrower: String,
    /// When it ends by itself.
    pub until: Timestamp,
}

/// Whether a conversation is lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LendOutcome {
    /// Nothing runs in it, this node has it, and its messages wait.
    Lent(Loan),
    /// Its messages wait, and what runs in it goes on first.
    Busy {
        loan: Loan,
        /// The message whose turn runs; a reply is being sent on another node when absent.
        message_id: Option<MessageId>,
    },
    /// Another loan of it lasts.
    Taken(Loan),
    /// It has no thread yet.
    NoThread,
}

impl Transition for Lend {
    type Outcome = LendOutcome;
    const NAME: &'static str = "lend";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<LendOutcome, RunError> {
        let id = &self.conversation_id;
        let thread = tx.conversation(id)?.and_then(|one| one.thread);
        if thread.is_none_or(|thread| thread.is_unnamed()) {
            return Ok(LendOutcome::NoThread);
        }
        let known = tx.loan(id)?;
        if let Some(other) = known.as_ref().filter(|one| one.loan_id != self.loan_id) {
            return Ok(LendOutcome::Taken(other.clone()));
        }
        let is_new = known.is_none();
        let mut loan = known.unwrap_or_else(|| Loan {
            loan_id: self.loan_id,
            conversation_id: id.clone(),
            borrower: self.borrower,
            since: now,
            until: self.until,
            error: None,
        });
        let at_work = match (tx.in_flight_of(id)?, tx.this_node()) {
            (Some(message), _) => Some(Some(message.message_id)),
            (None, Some(this)) => come(tx, id, &this, now)?,
            (None, None) => None,
        };
        loan.error = None;
        loan.until = match at_work {
            None => self.until,
            // Whoever waits asks again; who has gone away holds nothing up.
            Some(_) => self.until.min(now.plus_ms(LOAN_PENDING_MS)),
        };
        tx.change(Change::Loan(LoanChange::Put(loan.clone())))?;
        if is_new {
            let until = format!("until {}", self.until.utc());
            tx.audit(&loan.borrower, Self::NAME, id, until, now)?;
            announce_waiting(tx, id)?;
        }
        // The scheduler looks when the next loan ends.
        tx.act(Action::Schedule);
        Ok(match at_work {
            None => LendOutcome::Lent(loan),
            Some(message_id) => LendOutcome::Busy { loan, message_id },
        })
    }
}

/// Moves the conversation to this node. What goes on in it first, if anything does: also a turn that came along from a
/// node that is gone.
fn come(
    tx: &mut Tx<'_>,
    id: &ConversationId,
    this: &NodeId,
    now: Timestamp,
) -> Result<Option<Option<MessageId>>, RunError> {
    if let MoveOutcome::Busy { message_id } = fleet::give(tx, id, this, now)? {
        return Ok(Some(message_id));
    }
    Ok(tx.in_flight_of(id)?.map(|message| Some(message.message_id)))
}

/// Whoever waits for an answer is shown what it waits for.
fn announce_waiting(tx: &mut Tx<'_>, id: &ConversationId) -> Result<(), RowsError> {
    for message in tx.unanswered_of(id, LOAN_WAITING_MAX)? {
        tx.announce(&message.message_id);
    }
    Ok(())
}

/// Ends the time of a loan: the terminal has ended, or somebody wants the conversation back.
#[derive(Clone, Debug)]
pub struct ReturnLoan {
    pub conversation_id: ConversationId,
    /// This loan only; whichever there is when absent.
    pub loan_id: Option<LoanId>,
    pub by: String,
}

impl Transition for ReturnLoan {
    /// The loan; absent when there is none.
    type Outcome = Option<Loan>;
    const NAME: &'static str = "return_loan";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Loan>, RunError> {
        let id = &self.conversation_id;
        let found = tx.loan(id)?;
        let is_meant = |loan: &Loan| self.loan_id.as_ref().is_none_or(|id| *id == loan.loan_id);
        let Some(mut loan) = found.filter(is_meant) else {
            return Ok(None);
        };
        if !loan.is_over(now) {
            loan.until = now;
            tx.change(Change::Loan(LoanChange::Put(loan.clone())))?;
            tx.audit(&self.by, "return", id, "", now)?;
        }
        tx.act(Action::Schedule);
        Ok(Some(loan))
    }
}

/// Records the newest turn of a thread that was released, where none is known by Codex's id: what is behind it was said at
/// the terminal. Runs of `codex exec` have no such id, and nothing that tells them from a terminal's turns.
#[derive(Clone, Debug)]
pub struct LoanOpened {
    pub conversation_id: ConversationId,
    pub loan_id: LoanId,
    pub newest: TurnId,
}

impl Transition for LoanOpened {
    type Outcome = ();
    const NAME: &'static str = "loan_opened";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let id = &self.conversation_id;
        let found = tx.loan(id)?;
        let is_lent = found.is_some_and(|loan| loan.loan_id == self.loan_id);
        let conversation = tx.conversation(id)?.filter(|_| is_lent);
        let is_unknown = |last: &Option<TurnId>| last.as_ref().is_none_or(TurnId::is_run);
        if conversation.is_some_and(|conversation| is_unknown(&conversation.last_turn)) {
            tx.change(Change::LastTurn {
                conversation_id: self.conversation_id,
                turn_id: self.newest,
                at: now,
            })?;
        }
        Ok(())
    }
}

/// Notes why a loan whose time is over still lasts.
#[derive(Clone, Debug)]
pub struct KeepLoan {
    pub conversation_id: ConversationId,
    pub loan_id: LoanId,
    pub error: String,
}

impl Transition for KeepLoan {
    type Outcome = ();
    const NAME: &'static str = "keep_loan";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        let error = Some(clip(&self.error, REASON_MAX_CHARS));
        let found = tx.loan(&self.conversation_id)?;
        let found = found.filter(|loan| loan.loan_id == self.loan_id && loan.error != error);
        if let Some(loan) = found {
            tx.change(Change::Loan(LoanChange::Put(Loan { error, ..loan })))?;
            announce_waiting(tx, &self.conversation_id)?;
        }
        Ok(())
    }
}

/// A turn of a terminal, with the id of the message that it becomes.
#[derive(Clone, Debug)]
pub struct LentTurn {
    pub message_id: MessageId,
    pub turn: ForeignTurn,
}

/// Ends a loan. What was said at the terminal becomes finished messages, and what waits goes behind them.
#[derive(Clone, Debug)]
pub struct EndLoan {
    pub conversation_id: ConversationId,
    pub loan_id: LoanId,
    /// The thread that was read.
    pub thread: Option<ThreadId>,
    /// Oldest first.
    pub said: Vec<LentTurn>,
    /// What the terminal began with.
    pub sandbox: Sandbox,
    pub epoch: Epoch,
    pub boot_id: BootId,
}

impl Transition for EndLoan {
    /// How many turns became messages; absent when the loan has ended already.
    type Outcome = Option<usize>;
    const NAME: &'static str = "end_loan";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<usize>, RunError> {
        let (id, loan_id) = (self.conversation_id.clone(), self.loan_id.clone());
        let is_it = tx.loan(&id)?.is_some_and(|loan| loan.loan_id == loan_id);
        let Some(conversation) = tx.conversation(&id)?.filter(|_| is_it) else {
            return Ok(None);
        };
        let mut taken = 0;
        if conversation.thread == self.thread && tx.in_flight_of(&id)?.is_none() {
            taken = self.record(tx, &conversation, now)?;
        }
        tx.change(Change::Loan(LoanChange::End {
            conversation_id: id.clone(),
            loan_id,
        }))?;
        tx.act(Action::Schedule);
        announce_waiting(tx, &id)?;
        Ok(Some(taken))
    }
}

impl EndLoan {
    fn record(
        &self,
        tx: &mut Tx<'_>,
        conversation: &Conversation,
        now: Timestamp,
    ) -> Result<usize, RowsError> {
        let id = &conversation.conversation_id;
        let mut seq = tx.last_seq(id)?.map_or(0, |seq| seq.0);
        let mut taken = 0;
        for lent in &self.said {
            let external_id = external_id(&lent.turn);
            let known = tx.message_by_external(&conversation.channel, &external_id)?;
            if known.is_some() || lent.turn.input.is_empty() || is_ours(tx, &lent.turn)? {
                continue;
            }
            seq = seq.saturating_add(1);
            let message = message_of(lent, external_id, conversation, Seq(seq), now);
            self.write(tx, lent, message, now)?;
            taken += 1;
        }
        let newest = self.said.last().map(|lent| &lent.turn.recorded.turn_id);
        if let Some(turn_id) = newest {
            tx.change(Change::LastTurn {
                conversation_id: id.clone(),
                turn_id: turn_id.clone(),
                at: now,
            })?;
        }
        if taken > 0 {
            put_waiting_behind(tx, id, seq)?;
        }
        Ok(taken)
    }

    fn write(
        &self,
        tx: &mut Tx<'_>,
        lent: &LentTurn,
        message: Message,
        now: Timestamp,
    ) -> Result<(), RowsError> {
        let recorded = &lent.turn.recorded;
        tx.change(Change::NewMessage(message.clone()))?;
        tx.change(Change::NewTurn(Turn {
            message_id: message.message_id.clone(),
            attempt: message.life.attempt,
            client_id: ClientId::of(&message.message_id, message.life.attempt),
            epoch: self.epoch,
            boot_id: self.boot_id.clone(),
            incarnation: IncarnationId::new("terminal"),
            thread: self.thread.clone().unwrap_or_else(|| ThreadId::new("")),
            after_turn: None,
            turn_id: Some(recorded.turn_id.clone()),
            sandbox: self.sandbox,
            state: TurnState::Ended,
            touched: !recorded.effects.is_empty(),
            started_at: message.received_at,
            ended_at: Some(message.life.updated_at),
            usage: Usage::default(),
        }))?;
        for effect in &recorded.effects {
            tx.event(&message, EventKind::Completed, effect, now)?;
        }
        if message.life.state == MessageState::Done {
            let text = recorded.answer.clone();
            let text = text.filter(|text| !text.trim().is_empty());
            tx.change(Change::NewAnswer(Answer {
                message_id: message.message_id.clone(),
                attempt: message.life.attempt,
                source: AnswerSource::Harvested,
                text: text.unwrap_or_else(|| NO_TEXT.to_owned()),
                created_at: message.life.updated_at,
            }))?;
        }
        tx.announce(&message.message_id);
        Ok(())
    }
}

/// Whether a message of ours began it: the end of a turn that failed is no anchor.
fn is_ours(tx: &Tx<'_>, turn: &ForeignTurn) -> Result<bool, RowsError> {
    for client_id in &turn.recorded.received {
        let named = client_id.message_id();
        if let Some(message_id) = named
            && tx.message(&message_id)?.is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn external_id(turn: &ForeignTurn) -> ExternalId {
    let turn_id = &turn.recorded.turn_id;
    ExternalId::new(format!("{}{turn_id}", Message::TERMINAL_TURN))
}

fn message_of(
    lent: &LentTurn,
    external_id: ExternalId,
    conversation: &Conversation,
    seq: Seq,
    now: Timestamp,
) -> Message {
    let turn = &lent.turn;
    let said_at = turn.started_at.unwrap_or(now).min(now);
    let ended_at = turn.ended_at.unwrap_or(now).clamp(said_at, now);
    let recorded = &turn.recorded;
    let ended = match (recorded.status, &recorded.answer, &recorded.failure) {
        (TurnStatus::Completed, _, _) | (_, Some(_), _) => MessageState::Done,
        (TurnStatus::Failed, None, Some(failure)) => MessageState::Cancelled {
            reason: clip(&failure.reason, REASON_MAX_CHARS),
        },
        (TurnStatus::InProgress | TurnStatus::Interrupted | TurnStatus::Failed, None, _) => {
            MessageState::Cancelled {
                reason: "stopped at the terminal".to_owned(),
            }
        }
    };
    Message {
        message_id: lent.message_id.clone(),
        conversation_id: conversation.conversation_id.clone(),
        seq,
        channel: conversation.channel.clone(),
        external_id,
        kind: SenderKind::Person,
        sender: AT_TERMINAL.to_owned(),
        tier: Tier::Owner,
        body: turn.input.clone(),
        attachments: Vec::new(),
        said_at,
        hops: 0,
        round: Round(0),
        received_at: said_at,
        trace: None,
        life: Life {
            attempt: 1,
            spent: 1,
            ..Life::new(said_at).moved(ended, ended_at)
        },
    }
}

/// What waits is answered after what was said at the terminal, so it stands behind that. It keeps its age.
fn put_waiting_behind(tx: &mut Tx<'_>, id: &ConversationId, mut seq: i64) -> Result<(), RowsError> {
    let waiting = tx.unanswered_of(id, LOAN_WAITING_MAX)?;
    let all_here = u32::try_from(waiting.len()).is_ok_and(|count| count < LOAN_WAITING_MAX);
    let only_waiting = waiting
        .iter()
        .all(|message| message.life.state.name() == StateName::Received);
    if !all_here || !only_waiting {
        return Ok(());
    }
    for message in waiting {
        seq = seq.saturating_add(1);
        tx.change(Change::Tail {
            message_id: message.message_id,
            seq: Seq(seq),
            at: message.received_at,
        })?;
    }
    Ok(())
}
