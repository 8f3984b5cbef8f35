//! Wake-ups between nodes: a committed batch names what it left to do, and every node that listens hears of it.
//!
//! A wake-up may be lost, like an action: a listener learns when it may have missed some, and looks at the rows.

use super::connect::STATEMENT_MAX;
use super::connect::{PostgresUrl, setup};
use super::fault::chain;
use super::live::LiveNote;
use super::session::{Expected, Session};
use bridge_core::port::RowsError;
use bridge_core::step::Action;
use bridge_core::value::{ConversationId, MessageId, NodeId, RequestId};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::{ToSql, Type};

/// The name under which nodes listen.
const CHANNEL: &str = "codex_bridge";

/// Ids in one wake-up: with ids of the greatest length it stays within the 8000 bytes that PostgreSQL carries.
const IDS_MAX: usize = 20;

/// Ids that one batch names. Of more of them nodes learn only that there are some.
const NAMED_MAX: usize = 200;

/// Wake-ups that wait for a listener before it learns that it missed some.
const WAITING_MAX: usize = 1024;

/// Live notes that wait to be sent.
const OUTGOING_MAX: usize = 256;

/// Live notes under way to the server at the same time.
const SENDING_MAX: usize = 8;

/// The waits before the connection is made again.
const PAUSE: Duration = Duration::from_secs(1);

/// After so much silence the listening thread looks whether anybody still listens, and whether the server answers.
const LOOK: Duration = Duration::from_secs(5);

/// A server that does not answer for so long is given up.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What a commit of another node left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// Rows of these changed.
    Changed {
        /// Messages.
        messages: Vec<MessageId>,
        /// Conversations with something to send.
        conversations: Vec<ConversationId>,
        /// Requests of Codex that were decided.
        requests: Vec<RequestId>,
        /// Something may be claimable, now or at a time that was not known before.
        schedule: bool,
    },
    /// What another node says of running turns.
    Live(NodeId, LiveNote),
    /// Some wake-ups were missed: look at the rows.
    Missed,
}

/// One wake-up on its way. Names of fields are never changed, only added.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Note {
    node: String,
    #[serde(default)]
    messages: Vec<String>,
    #[serde(default)]
    conversations: Vec<String>,
    #[serde(default)]
    requests: Vec<String>,
    #[serde(default)]
    schedule: bool,
    #[serde(default)]
    more: bool,
    /// A [`LiveNote`]. One of a later version must not make the rest unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    live: Option<serde_json::Value>,
}

/// An id that a batch names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named<'a> {
    Message(&'a str),
    Conversation(&'a str),
    Request(&'a str),
}

/// Queues the wake-ups of a batch; they go out with its commit.
pub(super) fn send<'a>(
    session: &Session,
    node: &NodeId,
    actions: impl Iterator<Item = &'a Action>,
) -> Result<(), RowsError> {
    let (mut named, mut schedule) = (BTreeSet::new(), false);
    for action in actions {
        named.insert(match action {
            Action::Work { message_id }
            | Action::Reconcile { message_id }
            | Action::Join { message_id }
            | Action::Interrupt { message_id }
            | Action::Announce { message_id } => Named::Message(message_id.as_str()),
            Action::Deliver { conversation_id } => Named::Conversation(conversation_id.as_str()),
            Action::Answer { request_id } => Named::Request(request_id.as_str()),
            Action::Schedule | Action::ScheduleAt { .. } => {
                schedule = true;
                continue;
            }
        });
    }
    for note in notes(node, &named, schedule) {
        let note = serde_json::to_string(&note).unwrap_or_default();
        session.write("SELECT pg_notify(?1, ?2)", &(CHANNEL, note), Expected::Any)?;
    }
    Ok(())
}

fn notes(node: &NodeId, named: &BTreeSet<Named<'_>>, schedule: bool) -> Vec<Note> {
    let more = named.len() > NAMED_MAX;
    let empty = Note {
        node: node.to_string(),
        schedule,
        more,
        ..Note::default()
    };
    if more || (named.is_empty() && schedule) {
        return vec![empty];
    }
    let named: Vec<&Named<'_>> = named.iter().collect();
    let notes = named.chunks(IDS_MAX).map(|ids| {
        let mut note = empty.clone();
        for id in ids {
            match id {
                Named::Message(id) => note.messages.push((*id).to_owned()),
                Named::Conversation(id) => note.conversations.push((*id).to_owned()),
                Named::Request(id) => note.requests.push((*id).to_owned()),
            }
        }
        note
    });
    notes.collect()
}

/// Hears what other nodes committed.
#[derive(Debug)]
pub struct Wakeups {
    receiver: broadcast::Receiver<Wakeup>,
}

impl Wakeups {
    /// The next one. It ends never, but may be silent for as long as the database is away.
    pub async fn next(&mut self) -> Wakeup {
        match self.receiver.recv().await {
            Ok(wakeup) => wakeup,
            Err(broadcast::error::RecvError::Lagged(_)) => Wakeup::Missed,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The connection that listens, for all who ask, and sends live notes.
#[derive(Debug)]
pub(super) struct Listener {
    sender: Arc<broadcast::Sender<Wakeup>>,
    outgoing: mpsc::Sender<LiveNote>,
}

impl Listener {
    pub(super) fn start(url: &PostgresUrl, node: &NodeId) -> std::io::Result<Self> {
        let (sender, _) = broadcast::channel(WAITING_MAX);
        let sender = Arc::new(sender);
        let (outgoing, mut notes) = mpsc::channel(OUTGOING_MAX);
        let (url, node, weak) = (url.clone(), node.clone(), Arc::downgrade(&sender));
        let runtime = super::session::runtime()?;
        thread::Builder::new()
            .name("ledger-listener".to_owned())
            .spawn(move || runtime.block_on(listen(&url, &node, &weak, &mut notes)))?;
        Ok(Self { sender, outgoing })
    }

    /// Tells the other nodes, as soon as the database can be reached. False where there is no room for it: texts leave half
    /// of it to what nobody sends again.
    pub(super) fn tell(&self, note: LiveNote) -> bool {
        let is_text = matches!(note, LiveNote::Text { .. });
        let has_room = !is_text || self.outgoing.capacity() > OUTGOING_MAX / 2;
        has_room && self.outgoing.try_send(note).is_ok()
    }

    pub(super) fn wakeups(&self) -> Wakeups {
        Wakeups {
            receiver: self.sender.subscribe(),
        }
    }
}

/// Listens until nobody holds the ledger any more.
async fn listen(
    url: &PostgresUrl,
    node: &NodeId,
    sender: &Weak<broadcast::Sender<Wakeup>>,
    notes: &mut mpsc::Receiver<LiveNote>,
) {
    while sender.strong_count() > 0 {
        if let Err(why) = hear(url, node, sender, notes).await {
            tracing::debug!(why, "wake-ups of other nodes do not arrive now");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn hear(
    url: &PostgresUrl,
    node: &NodeId,
    sender: &Weak<broadcast::Sender<Wakeup>>,
    notes: &mut mpsc::Receiver<LiveNote>,
) -> Result<(), String> {
    let (client, mut driver) = in_time(url.connect()).await?;
    let begin = format!("{}; LISTEN {CHANNEL}", setup(STATEMENT_MAX));
    let mut begin = Box::pin(in_time(client.batch_execute(&begin)));
    let mut begun = false;
    let mut sending = FuturesUnordered::new();
    loop {
        let message = {
            let driven = poll_fn(|context| {
                if !begun && let Poll::Ready(result) = begin.as_mut().poll(context) {
                    begun = true;
                    return Poll::Ready(Received::Begun(result));
                }
                while begun
                    && sending.len() < SENDING_MAX
                    && let Poll::Ready(Some(live)) = notes.poll_recv(context)
                {
                    sending.push(say(&client, node, Some(live)));
                }
                while let Poll::Ready(Some(sent)) = sending.poll_next_unpin(context) {
                    if let Err(error) = sent {
                        return Poll::Ready(Received::Begun(Err(error)));
                    }
                }
                driver
                    .poll_message(context)
                    .map(|message| Received::Message(Box::new(message)))
            });
            tokio::time::timeout(LOOK, driven).await
        };
        let Some(sender) = sender.upgrade() else {
            return Ok(());
        };
        let wakeup = match message {
            Err(_quiet) => {
                if sending.is_empty() {
                    sending.push(say(&client, node, None));
                }
                continue;
            }
            Ok(Received::Begun(result)) => {
                result?;
                Wakeup::Missed
            }
            Ok(Received::Message(message)) => {
                let Some(message) = message.transpose().map_err(|error| chain(&error))? else {
                    return Ok(());
                };
                let AsyncMessage::Notification(note) = message else {
                    continue;
                };
                let Some(wakeup) = read(note.payload(), node) else {
                    continue;
                };
                wakeup
            }
        };
        // Nobody may listen now.
        let _ = sender.send(wakeup);
    }
}

/// Sends a live note, or nothing but a question: a connection that is dead brings no error to who only listens.
async fn say(
    client: &tokio_postgres::Client,
    node: &NodeId,
    live: Option<LiveNote>,
) -> Result<(), String> {
    let Some(live) = live else {
        return in_time(client.batch_execute("")).await;
    };
    let note = Note {
        node: node.to_string(),
        live: serde_json::to_value(live).ok(),
        ..Note::default()
    };
    let note = serde_json::to_string(&note).unwrap_or_default();
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&CHANNEL, Type::TEXT), (&note, Type::TEXT)];
    in_time(client.query_typed("SELECT pg_notify($1, $2)", &values))
        .await
        .map(drop)
}

async fn in_time<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, String> {
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(answered) => answered.map_err(|error| chain(&error)),
        Err(_late) => Err("the database did not answer in time".to_owned()),
    }
}

enum Received {
    Begun(Result<(), String>),
    Message(Box<Option<Result<AsyncMessage, tokio_postgres::Error>>>),
}

/// What a note says, unless it is our own.
fn read(payload: &str, node: &NodeId) -> Option<Wakeup> {
    let Ok(note) = serde_json::from_str::<Note>(payload) else {
        return Some(Wakeup::Missed);
    };
    if note.node == node.as_str() {
        return None;
    }
    if note.more {
        return Some(Wakeup::Missed);
    }
    if let Some(live) = note.live {
        let live = serde_json::from_value(live).ok()?;
        return Some(Wakeup::Live(NodeId::new(note.node), live));
    }
    Some(Wakeup::Changed {
        messages: note.messages.into_iter().map(MessageId::new).collect(),
        conversations: note
            .conversations
            .into_iter()
            .map(ConversationId::new)
            .collect(),
        requests: note.requests.into_iter().map(RequestId::new).collect(),
        schedule: note.schedule,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A later version's live note is nothing to look at rows for.
    #[test]
    fn unknown_live_notes_are_passed_over() {
        let this = NodeId::new("a");
        for live in [r#"{"sung":{"text":"la"}}"#, "7"] {
            let payload = format!(r#"{{"node":"b","live":{live}}}"#);
            assert_eq!(read(&payload, &this), None, "{payload}");
        }
        assert_eq!(read("no note", &this), Some(Wakeup::Missed));
        let known = r#"{"node":"b","live":{"watch":{"messages":["m"],"anew":true}}}"#;
        let live = LiveNote::Watch {
            messages: vec![MessageId::new("m")],
            anew: true,
        };
        assert_eq!(
            read(known, &this),
            Some(Wakeup::Live(NodeId::new("b"), live))
        );
    }
}
