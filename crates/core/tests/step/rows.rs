//! Rows for one transition: a conversation `c` with the message `m` of the fixture.

use bridge_core::port::{Change, Rows};
use bridge_core::step::{Applied, RunError, Transition};
use bridge_core::value::{
    Ack, AckMode, AckState, ChannelId, Conversation, ConversationId, Message, ThreadId, Timestamp,
    Turn,
};
use bridge_testkit::MemoryRows;

/// Builds rows change by change.
#[derive(Clone, Default)]
pub(crate) struct Given(MemoryRows);

impl Given {
    /// The message in its conversation, which is bound to this thread.
    pub(crate) fn message_on(thread: &str, message: Message) -> Self {
        let conversation = Conversation {
            conversation_id: ConversationId::new("c"),
            channel: ChannelId::new("local"),
            external_key: "main".to_owned(),
            context: None,
            thread: Some(ThreadId::new(thread)),
            last_turn: None,
            workdir: "/w".to_owned(),
            created_at: Timestamp(0),
        };
        let ack = Ack {
            mode: AckMode::None,
            state: AckState::NotNeeded,
        };
        Self::default()
            .with(Change::NewConversation(conversation))
            .with(Change::NewMessage { message, ack })
    }

    pub(crate) fn turn(self, turn: Turn) -> Self {
        self.with(Change::NewTurn(turn))
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
