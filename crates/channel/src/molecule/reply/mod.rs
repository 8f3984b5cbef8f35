//! Replies: a bubble on the canvas for people, a message for peers, a text for the chats of other services.
//!
//! A bubble has no key, so one whose outcome is not known is looked for before it is sent again (`bubble`). A message
//! to a peer carries an id made from the reply's key; newer platforms show such a message once, older ones twice.

pub(crate) mod bubble;
pub(crate) mod social;
pub(crate) mod upload;

use crate::http::HttpError;
use crate::http::Operation;
use crate::inbox::Arrival;
use crate::locked;
use crate::molecule::Molecule;
use crate::molecule::client::FeedQuery;
use crate::molecule::failure::fault;
use crate::molecule::feed::cursor::Edition;
use crate::molecule::feed::{Limit, step_back};
use crate::molecule::files::with_note;
use crate::molecule::push::receipt_of;
use crate::molecule::reply::bubble::{Bubble, ours};
use crate::molecule::reply::social::{Chat, addressed};
use crate::molecule::reply::upload::{for_peers, upload_all};
use crate::molecule::wire::{NewMessage, Row, Stamp, field};
use crate::poll::now;
use bridge_core::limits::TWIN_WINDOW_MS;
use bridge_core::port::{MayAct, Probe, Sink, SinkClass, SinkFault, SinkTraits};
use bridge_core::value::{Class, ExternalId, Failure, Message, Reply, SenderKind, Twin};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use uuid::Uuid;

/// How long a bubble that was not found may still be on its way to being seen; only a second look after it counts.
const PROBE_SETTLE: Duration = Duration::from_secs(2);
/// Pages that a look for a bubble reads: a day of a very busy canvas.
const PROBE_PAGES_MAX: u32 = 200;
/// What is said when nothing is left to say: the platform refuses an empty bubble.
const NOTHING: &str = "(empty)";
/// Talks of peers that are remembered.
const CONTEXTS_MAX: usize = 1_024;
/// Names replies; any fixed value does, as long as it never changes.
const REPLIES: Uuid = Uuid::from_u128(0x5b1f_6a2e_93c4_4d18_8e7a_0f9b_2c3d_4e5f);

/// The names that peers gave to their talks, by message: an answer belongs to the same talk. Not kept: an answer
/// without it arrives all the same.
#[derive(Debug, Default)]
pub(crate) struct Contexts(Mutex<VecDeque<(ExternalId, String)>>);

impl Contexts {
    pub(crate) fn of(&self, message: &Message) -> Option<String> {
        let known = locked(&self.0);
        let mut newest = known.iter().rev();
        let found = newest.find(|(id, _)| *id == message.external_id);
        found.map(|(_, context)| context.clone())
    }

    fn add(&self, id: &ExternalId, context: &str) {
        let mut known = locked(&self.0);
        known.push_back((id.clone(), context.to_owned()));
        if known.len() > CONTEXTS_MAX {
            known.pop_front();
        }
    }
}

/// What a bubble's row says.
#[derive(Debug, Deserialize)]
struct Shown {
    result: Option<String>,
}

impl Molecule {
    pub(crate) fn remember_contexts(&self, arrivals: &[Arrival]) {
        for arrival in arrivals {
            if let (SenderKind::Agent, Some(context)) = (arrival.kind, &arrival.extras.context) {
                self.0.contexts.add(&arrival.external_id, context);
            }
        }
    }

    async fn show(
        &self,
        message: &Message,
        reply: &Reply,
        may_act: MayAct<'_>,
    ) -> Result<String, SinkFault> {
        let text = bubble_text(message, reply);
        // No bubble names them yet, so an upload that is repeated is seen by nobody.
        let uploaded = upload_all(&self.0.client, self.0.file_store.get(), reply).await;
        let (attachments, refused) = uploaded.map_err(|error| fault(Operation::Upload, &error))?;
        // Held until the bubble is noted as ours: a look for an equal text meanwhile would take it for its own.
        let alone = self.0.bubbles.alone(&text).await;
        may_act()?;
        let shown = self.0.client.notify(&text, &attachments).await;
        shown.map_err(|error| fault(Operation::Send, &error))?;
        self.0.bubbles.confirm(&text, twin(reply));
        drop(alone);
        if !refused.is_empty() {
            // The text of a reply is how its bubble is found again, so it is not added to it.
            // Best effort: the reply itself is confirmed.
            let _sent = self.0.client.notify(&spoken(&refused), &[]).await;
        }
        Ok(format!("notify:{}", reply.key))
    }

    async fn tell_peer(&self, message: &Message, reply: &Reply) -> Result<String, HttpError> {
        let context = self.0.contexts.of(message);
        let text = with_note(&reply.body, &for_peers(&reply.attachments));
        let new = NewMessage {
            message_id: message_id(reply),
            text: &spoken(&text),
            context: context.as_deref(),
            hops: message.hops.saturating_add(1),
        };
        self.0.client.message(&message.sender, &new).await?;
        Ok(format!("a2a:{}", new.message_id))
    }

    /// One look for the bubble of a reply.
    async fn look_for(
        &self,
        text: &str,
        reply: &Reply,
        twins: &[Twin],
    ) -> Result<Option<Bubble>, HttpError> {
        let first_try = reply.first_try_at.unwrap_or(reply.created_at);
        let counted = first_try.plus_ms(-TWIN_WINDOW_MS);
        let mut others = self.0.bubbles.others(text, &reply.key, twins);
        others.retain(|other| other.sent_at >= counted || twins.contains(other));
        // As far back as any of them may have been shown, and no further: older bubbles are of replies not counted.
        let tries = others.iter().map(|other| other.first_try_at);
        let since = tries
            .min()
            .map_or(first_try, |oldest| oldest.min(first_try));
        let since = self.0.clocks.window(since);
        let bubbles = self.bubbles_with(text, since).await?;
        Ok(ours(bubbles, others, first_try, &self.0.clocks))
    }

    /// Every bubble with a text, back to a time.
    async fn bubbles_with(&self, text: &str, since: Stamp) -> Result<Vec<Bubble>, HttpError> {
        let (mut found, mut limit) = (Vec::<Bubble>::new(), Limit::default());
        let mut feed = FeedQuery {
            canvas: true,
            ..FeedQuery::default()
        };
        for _ in 0..PROBE_PAGES_MAX {
            let (page, whole) = self.one_page(&mut limit, &feed).await?;
            for bubble in page.rows.iter().filter_map(|row| shows(row, text)) {
                if found.iter().all(|known| known.row != bubble.row) {
                    found.push(bubble);
                }
            }
            let Some(oldest) = page.rows.iter().filter_map(Row::at).min() else {
                return Ok(found);
            };
            if whole || oldest < since {
                return Ok(found);
            }
            feed.before = Some(step_back(feed.before, oldest));
        }
        let why = "the canvas shows more than a look for one reply reads";
        Err(HttpError::Unreadable(why.to_owned()))
    }
}

impl Sink for Molecule {
    fn traits(&self, message: &Message) -> SinkTraits {
        let blind = SinkClass::Blind {
            on_unknown: self.0.settings.on_unknown,
        };
        let most = self.0.settings.max_reply_chars;
        let (class, most) = match (Recipient::of(message), self.edition()) {
            (Recipient::Canvas, _) => (SinkClass::Probeable, most),
            (Recipient::Chat(_), _) => (blind, most.min(social::MAX_CHARS)),
            (Recipient::Peer | Recipient::Nobody, Edition::Sequenced) => {
                (SinkClass::Idempotent, most)
            }
            (Recipient::Peer | Recipient::Nobody, Edition::Plain | Edition::Unknown) => {
                (blind, most)
            }
        };
        SinkTraits {
            class,
            max_chars: Some(most),
        }
    }

    async fn send(
        &self,
        message: &Message,
        reply: &Reply,
        may_act: MayAct<'_>,
    ) -> Result<String, SinkFault> {
        if let Some(receipt) = self.answer_call(message, reply, may_act).await? {
            return Ok(receipt);
        }
        match Recipient::of(message) {
            Recipient::Canvas => self.show(message, reply, may_act).await,
            Recipient::Chat(chat) => match self.tell_chat(chat, reply, may_act).await? {
                Some(receipt) => Ok(receipt),
                None => self.show(message, reply, may_act).await,
            },
            Recipient::Peer => {
                may_act()?;
                let sent = self.tell_peer(message, reply).await;
                sent.map_err(|error| fault(Operation::Send, &error))
            }
            Recipient::Nobody => Err(nobody(message)),
        }
    }

    async fn probe(
        &self,
        message: &Message,
        reply: &Reply,
        twins: &[Twin],
    ) -> Result<Probe, SinkFault> {
        if self.is_shown(message, reply).await? {
            return Ok(Probe::Present {
                receipt: receipt_of(reply),
            });
        }
        let text = bubble_text(message, reply);
        let _alone = self.0.bubbles.alone(&text).await;
        let failed = |error: HttpError| fault(Operation::Probe, &error);
        let mut found = self.look_for(&text, reply, twins).await.map_err(failed)?;
        if found.is_none() {
            tokio::time::sleep(PROBE_SETTLE).await;
            found = self.look_for(&text, reply, twins).await.map_err(failed)?;
        }
        Ok(match found {
            Some(bubble) => {
                self.0.bubbles.confirm(&text, twin(reply));
                Probe::Present {
                    receipt: format!("notify:{}", bubble.row),
                }
            }
            None => Probe::Absent,
        })
    }

    /// Only the canvas gets hints: an agent would answer one, and in other chats each text counts.
    async fn hint(&self, message: &Message, text: &str) -> Result<(), SinkFault> {
        match Recipient::of(message) {
            Recipient::Peer | Recipient::Chat(_) | Recipient::Nobody => Ok(()),
            Recipient::Canvas => {
                let sent = self.0.client.notify(&spoken(text), &[]).await;
                sent.map_err(|error| fault(Operation::Send, &error))
            }
        }
    }
}

/// Where the answer to a message goes.
enum Recipient<'a> {
    Canvas,
    Chat(Chat<'a>),
    Peer,
    Nobody,
}

impl<'a> Recipient<'a> {
    fn of(message: &'a Message) -> Self {
        match message.kind {
            SenderKind::Person => match Chat::of_sender(&message.sender) {
                Some(chat) => Self::Chat(chat),
                None => Self::Canvas,
            },
            SenderKind::Agent if Uuid::parse_str(&message.sender).is_ok() => Self::Peer,
            SenderKind::Agent => Self::Nobody,
        }
    }
}

/// The same for every try of a reply: a bubble is found again by its text.
fn bubble_text<'a>(message: &Message, reply: &'a Reply) -> Cow<'a, str> {
    match addressed(message) {
        None => spoken(&reply.body),
        Some(to) => Cow::Owned(format!("{to}\n\n{}", spoken(&reply.body))),
    }
}

/// The platform takes a NUL and stores nothing; an empty text it refuses.
pub(crate) fn spoken(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        false if text.is_empty() => Cow::Borrowed(NOTHING),
        false => Cow::Borrowed(text),
        true => match text.replace('\0', "") {
            rest if rest.is_empty() => Cow::Borrowed(NOTHING),
            rest => Cow::Owned(rest),
        },
    }
}

/// The same for every try of a reply.
fn message_id(reply: &Reply) -> String {
    Uuid::new_v5(&REPLIES, reply.key.as_str().as_bytes())
        .hyphenated()
        .to_string()
}

fn twin(reply: &Reply) -> Twin {
    Twin {
        key: reply.key.clone(),
        first_try_at: reply.first_try_at.unwrap_or_else(now),
        sent_at: now(),
    }
}

/// A row as a bubble with a certain text.
fn shows(row: &Row, text: &str) -> Option<Bubble> {
    let method: String = field(row.method.as_deref()).ok().flatten()?;
    let shown: Shown = field(row.response_body.as_deref()).ok().flatten()?;
    if method != "notify" || shown.result.as_deref() != Some(text) {
        return None;
    }
    Some(Bubble {
        row: row.id()?,
        at: row.at()?,
    })
}

fn nobody(message: &Message) -> SinkFault {
    let reason = format!(
        "the sender {:?} of this message is no workspace, so there is nobody to answer",
        message.sender
    );
    SinkFault {
        failure: Failure::new(Class::Permanent, reason),
    }
}
