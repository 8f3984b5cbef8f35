//! Fills a ledger as a daemon that died under load leaves it: most messages wait, some are answered and their replies
//! not sent, some have a turn that ran or was lost from sight. By the daemon's own transitions.

use anyhow::bail;
use bridge_core::port::Ledger;
use bridge_core::step::{
    Answered, Attach, Begin, Claim, ClaimOutcome, Extras, Lose, MidTurn, Receive, Verdict,
};
use bridge_core::value::{
    BootId, ChannelId, ConversationId, ExternalId, IncarnationId, MessageId, Sandbox, SenderKind,
    ThreadId, Tier, Timestamp, TurnId, Usage,
};
use bridge_store::key::KEY_BYTES;
use bridge_store::{KeyAge, LedgerKey, Options, SqliteLedger};
use std::path::Path;

/// Messages of one conversation.
const PER_CONVERSATION: u64 = 5;
/// Of so many messages one is answered and waits to be sent.
const ANSWERED_OF: u64 = 20;
/// What the ones that wait want to hear.
pub(super) const ANSWER: &str = "late";

/// How many of which kind there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    pub(super) messages: u64,
    pub(super) answered: u64,
    /// Half of them run, and half were lost from sight.
    pub(super) in_flight: u64,
    /// The time of all of it: lately, because what is old is given up.
    at: Timestamp,
}

impl Backlog {
    pub(super) fn of(messages: u64, in_flight: u64) -> Self {
        Self {
            messages,
            answered: messages / ANSWERED_OF,
            in_flight: in_flight.min(messages / ANSWERED_OF),
            at: Timestamp(jiff::Timestamp::now().as_millisecond()),
        }
    }

    pub(super) fn conversations(&self) -> u64 {
        (self.messages / PER_CONVERSATION).max(1)
    }

    /// The oldest one that had a turn: claims go by age, so those behind the answered ones came next.
    pub(super) fn oldest_at_work(&self) -> MessageId {
        id(self.answered)
    }

    /// Writes it all into a new ledger and closes that.
    pub(super) async fn write(&self, path: &Path) -> anyhow::Result<()> {
        let key = LedgerKey::from_bytes(&[1; KEY_BYTES], KeyAge::New)?;
        let ledger = SqliteLedger::open(path, &key, Options::default())?;
        self.receive(&ledger).await?;
        for _ in 0..self.answered {
            let message_id = begin(&ledger, self.at).await?;
            let answered = Answered {
                attachments: Vec::new(),
                message_id,
                turn_id: TurnId::new("u"),
                text: Some("done before".to_owned()),
                received: Vec::new(),
                usage: Usage::default(),
                reply_max_chars: None,
            };
            ledger.transact(answered, self.at).await?;
        }
        for number in 0..self.in_flight {
            let message_id = begin(&ledger, self.at).await?;
            if number % 2 == 1 {
                let lose = Lose {
                    message_id,
                    why: "the daemon ended".to_owned(),
                    end: None,
                };
                ledger.transact(lose, self.at).await?;
            }
        }
        Ok(())
    }

    /// One after the other, so that they are claimed in the order of their numbers.
    async fn receive(&self, ledger: &SqliteLedger) -> anyhow::Result<()> {
        let conversations = self.conversations();
        for number in 0..self.messages {
            let message = message(number, number % conversations);
            ledger.transact(message, self.at).await?;
        }
        Ok(())
    }
}

fn id(number: u64) -> MessageId {
    MessageId::new(format!("00000000-0000-7000-8000-{number:012}"))
}

fn message(number: u64, conversation: u64) -> Receive {
    Receive {
        message_id: id(number),
        conversation_id: ConversationId::new(format!("c-{conversation}")),
        workdir: "/tmp".to_owned(),
        channel: ChannelId::new("local"),
        external_key: format!("k-{conversation}"),
        external_id: ExternalId::new(format!("x-{number}")),
        kind: SenderKind::Person,
        sender: "me".to_owned(),
        tier: Tier::Owner,
        body: format!("echo:{ANSWER}"),
        mid_turn: MidTurn::Queue,
        verdict: Verdict::Fit,
        extras: Extras::default(),
    }
}

/// Claims the next message and brings its turn to run.
async fn begin(ledger: &SqliteLedger, at: Timestamp) -> anyhow::Result<MessageId> {
    let claim = Claim {
        turns_max: u32::MAX,
        turns_reserved: 0,
        turns_per_channel: u32::MAX,
        per_sender: std::sync::Arc::new(bridge_core::step::TurnsPerSender::UNLIMITED),
        one_writer: Vec::new(),
        readers: Vec::new(),
        budgets: std::sync::Arc::default(),
        leave_written: false,
        now: at,
    };
    let claimed = ledger.transact(claim, at).await?.outcome;
    let ClaimOutcome::Claimed { message, .. } = claimed else {
        bail!("nothing to claim: {claimed:?}");
    };
    let message_id = message.message_id;
    let begin = Begin {
        message_id: message_id.clone(),
        thread: ThreadId::new(message_id.as_str()),
        incarnation: IncarnationId::new("i"),
        epoch: ledger.epoch(),
        boot_id: BootId::new("b"),
        sandbox: Sandbox::ReadOnly,
    };
    ledger.transact(begin, at).await?;
    let attach = Attach {
        message_id: message_id.clone(),
        turn_id: TurnId::new(format!("u-{message_id}")),
    };
    ledger.transact(attach, at).await?;
    Ok(message_id)
}
