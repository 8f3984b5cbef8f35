//! Rows for one transition: a conversation `c` with the message `m` of the fixture.

use bridge_core::port::{Change, Rows};
use bridge_core::step::{Applied, RunError, Transition};
use bridge_core::value::{
    BootId, ChannelId, ClientId, Conversation, ConversationId, Epoch, IncarnationId, Message,
    MessageId, Request, Sandbox, ThreadId, Timestamp, Turn, TurnState, Usage,
};
use bridge_testkit::MemoryRows;

/// Builds rows change by change.
#[derive(Clone, Default)]
pub(crate) struct Given(MemoryRows);

impl Given {
    /// The message in its conversation, which is bound to the thread `t`.
    pub(crate) fn message(message: Message) -> Self {
        Self::message_on("t", message)
    }

    pub(crate) fn message_on(thread: &str, message: Message) -> Self {
        Self::default()
            .with(Change::NewConversation(conversation("c", thread)))
            .with(Change::NewMessage(message))
    }

    /// A message of another conversation.
    pub(crate) fn beside(self, id: &str, message: Message) -> Self {
        self.with(Change::NewConversation(conversation(id, id)))
            .with(Change::NewMessage(message))
    }

    pub(crate) fn rows(self) -> MemoryRows {
        self.0
    }

    pub(crate) fn turn(self, turn: Turn) -> Self {
        self.with(Change::NewTurn(turn))
    }

    pub(crate) fn request(self, request: Request) -> Self {
        self.with(Change::NewRequest(request))
    }

    pub(crate) fn with(mut self, change: Change) -> Self {
        self.0.apply(&change).unwrap();
        self
    }

    /// Runs a transition over these rows.
    pub(crate) fn run<T: Transition>(
        &mut self,
        transition: T,
        now: i64,
    ) -> Result<Applied<T::Outcome>, RunError> {
        transition.run(&mut self.0, Timestamp(now))
    }
}

fn conversation(id: &str, thread: &str) -> Conversation {
    Conversation {
        conversation_id: ConversationId::new(id),
        channel: ChannelId::new("local"),
        external_key: id.to_owned(),
        context: None,
        thread: Some(ThreadId::new(thread)),
        last_turn: None,
        workdir: "/w".to_owned(),
        model: None,
        sandbox: None,
        created_at: Timestamp(0),
    }
}

/// The turn of its first attempt, begun in boot `boot` of the machine.
pub(crate) fn turn(sandbox: Sandbox, touched: bool) -> Turn {
    Turn {
        message_id: MessageId::new("m"),
        attempt: 1,
        client_id: ClientId::new("m.1"),
        epoch: Epoch(1),
        boot_id: BootId::new("boot"),
        incarnation: IncarnationId::new("i"),
        thread: ThreadId::new("t"),
        after_turn: None,
        turn_id: None,
        sandbox,
        state: TurnState::Lost,
        touched,
        started_at: Timestamp(0),
        ended_at: None,
        usage: Usage::default(),
    }
}
