//! How a notification goes out, by its target: a webhook, a workspace of a Molecule platform, a command of the
//! configuration, or the row itself.

use crate::Daemon;
use crate::config::Config;
use bridge_channel::PostPayload;
use bridge_channel::notify::{Target, Webhook};
use bridge_core::port::{Agent, Approach, Ledger, Probe, Sink, SinkClass};
use bridge_core::step::EventDelivery;
use bridge_core::value::{
    ChannelId, Class, ConversationId, ExternalId, Failure, Life, Message, MessageId, Reply,
    ReplyKey, ReplyKind, ReplyState, Round, SenderKind, Seq, Task, TaskInput, Tier, Timestamp,
};
use bridge_front::NotificationPayload;
use bridge_host::{NotifyProgram, NotifyProgramError};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// What begins the channel of a workspace.
const MOLECULE: &str = "molecule:";
/// What begins the id of a notification; the rest is the task's.
const ID_PREFIX: &str = "msg_";
/// The place of a notification among the replies of a task's first message: none ever has it.
const ORDINAL: u32 = u32::MAX;

/// Why a command that was running when the daemon died is not run again.
const CUT: &str = "the command was running when the daemon ended, and may have done its work: look, and run it again with `codex-bridge notify-completed` if it did not";

/// Targets that can be notified.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotifySettings {
    /// Calls webhooks.
    pub(crate) webhook: Option<Webhook>,
    /// Commands by their names.
    commands: BTreeMap<String, NotifyProgram>,
    /// Who sends to targets of other senders, by their scheme.
    schemes: BTreeMap<String, Target>,
    /// The workspaces that are served.
    molecules: Vec<ChannelId>,
}

impl NotifySettings {
    pub(crate) fn new(config: &Config, env: &[(OsString, OsString)]) -> Self {
        let commands = config.notify.command.iter().filter_map(|command| {
            let (program, args) = command.argv.split_first()?;
            let target = NotifyProgram {
                program: program.clone(),
                args: args.to_vec(),
                env: env.to_vec(),
                deadline: Duration::from_secs(command.timeout_secs),
            };
            Some((command.name.clone(), target))
        });
        Self {
            webhook: Some(config.notify.webhook()),
            commands: commands.collect(),
            schemes: config
                .notify
                .schemes
                .iter()
                .filter_map(|(scheme, sender)| Some((scheme.clone(), Target::parse(sender).ok()?)))
                .collect(),
            molecules: Vec::new(),
        }
    }

    /// With the workspaces that can be notified.
    pub(crate) fn through(mut self, molecules: impl Iterator<Item = ChannelId>) -> Self {
        self.molecules = molecules.collect();
        self
    }

    /// Whether a target can be notified, as far as that is known in advance.
    pub(crate) fn check(&self, target: &str) -> Result<(), String> {
        match Target::parse(target).map_err(|error| error.to_string())? {
            Target::Local => Ok(()),
            Target::Webhook(url) => match &self.webhook {
                Some(webhook) => webhook.check(&url),
                None => Err("there are no webhooks here".to_owned()),
            },
            Target::Molecule(_) if self.molecules.is_empty() => Err(
                "notify target molecule:…: no workspace of a Molecule platform is configured"
                    .to_owned(),
            ),
            Target::Molecule(_) => Ok(()),
            Target::Command(name) => match self.commands.get(&name) {
                Some(_) => Ok(()),
                None => Err(format!(
                    "unknown notify target command:{name}: the configuration has no [[notify.command]] of that name"
                )),
            },
            Target::Other { scheme, .. } => match self.schemes.get(&scheme) {
                Some(_) => Ok(()),
                None => Err(unmapped(&scheme)),
            },
        }
    }

    /// The target that is really called, and the address for it where that is another sender's.
    fn sender(&self, target: Target) -> Result<(Target, Option<Address>), Failure> {
        let Target::Other { scheme, address } = target else {
            return Ok((target, None));
        };
        let Some(sender) = self.schemes.get(&scheme) else {
            return Err(Failure::new(Class::Config, unmapped(&scheme)));
        };
        Ok((sender.clone(), Some(Address { scheme, address })))
    }

    /// The channel that reaches a workspace, and the kind of sender we are there.
    fn way(&self, workspace: &str) -> Option<(ChannelId, SenderKind)> {
        let own = format!("{MOLECULE}{workspace}");
        match self
            .molecules
            .iter()
            .find(|channel| channel.as_str() == own)
        {
            Some(own) => Some((own.clone(), SenderKind::Person)),
            None => Some((self.molecules.first()?.clone(), SenderKind::Agent)),
        }
    }
}

/// An address of another sender. It is data for whoever sends.
struct Address {
    scheme: String,
    address: String,
}

fn unmapped(scheme: &str) -> String {
    format!(
        "notify target {scheme}:…: nobody sends to {scheme} here; set the key `notify.schemes.{scheme}` of codex-bridge.toml to \"command:NAME\" or \"webhook:https://…\""
    )
}

fn gone(what: &str) -> Failure {
    Failure::new(Class::Permanent, what)
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Tells the target of the end of a task, once.
    pub(crate) async fn notify_target(
        &self,
        target: &str,
        delivery: &EventDelivery,
    ) -> Result<(), Failure> {
        let task = &delivery.timeline.view.task;
        let again = delivery.again;
        let target = Target::parse(target).map_err(|error| gone(&error.to_string()))?;
        let row = task.clone();
        let notice = self
            .ledger
            .read(move |rows| NotificationPayload::load(rows, &row))
            .await;
        let mut notice = notice
            .map_err(|error| Failure::new(error.class(), error.to_string()))?
            .ok_or_else(|| gone("the task's messages are gone"))?;
        let id = format!("{ID_PREFIX}{}", task.task_id);
        let settings = self.settings();
        let settings = &settings.start.notify;
        let (target, address) = settings.sender(target)?;
        if let Some(Address { scheme, address }) = address {
            notice.body["scheme"] = scheme.into();
            notice.body["address"] = address.into();
            notice.body["text"] = notice.text.clone().into();
        }
        match target {
            Target::Local => Ok(()),
            // No scheme is mapped to another one.
            Target::Other { scheme, .. } => Err(gone(&unmapped(&scheme))),
            Target::Webhook(url) => {
                let webhook = settings.webhook.as_ref();
                let webhook = webhook.ok_or_else(|| gone("there are no webhooks here"))?;
                let body = notice.body.to_string();
                webhook
                    .deliver(
                        &url,
                        PostPayload {
                            id: &id,
                            body: &body,
                        },
                    )
                    .await
            }
            Target::Command(_) if again => Err(gone(CUT)),
            Target::Command(name) => {
                let command = settings.commands.get(&name).ok_or_else(|| {
                    let reason = format!(
                        "the configuration has no [[notify.command]] {name} any more: put it back"
                    );
                    Failure::new(Class::Config, reason)
                })?;
                let mut body = notice.body;
                body["id"] = serde_json::Value::String(id);
                body["text"] = serde_json::Value::String(notice.text);
                let sent = command.tell(format!("{body}\n").into_bytes()).await;
                sent.map_err(|error| command_failure(&error))
            }
            Target::Molecule(workspace) => {
                let way = settings.way(&workspace).ok_or_else(|| {
                    let reason = "no workspace of a Molecule platform is configured any more";
                    Failure::new(Class::Config, reason)
                })?;
                self.tell_workspace(delivery, &workspace, way, notice.text)
                    .await
            }
        }
    }

    /// Tells a workspace as a reply would be: a bubble on the own canvas, a message to a peer.
    async fn tell_workspace(
        &self,
        delivery: &EventDelivery,
        workspace: &str,
        (channel, kind): (ChannelId, SenderKind),
        text: String,
    ) -> Result<(), Failure> {
        let again = delivery.again;
        let task = &delivery.timeline.view.task;
        let inputs = &delivery.timeline.view.inputs;
        let first = inputs.iter().find_map(TaskInput::message_id);
        let first = first.ok_or_else(|| gone("the task's messages are gone"))?;
        let message = as_message(task, first, channel, kind, workspace);
        let reply = as_reply(delivery, first, text);
        let class = self.sink.traits(&message).class;
        let doubtful = match class {
            // A look costs nothing, and an earlier try may have been seen.
            SinkClass::Probeable => again || delivery.subscription.tries > 1,
            SinkClass::Idempotent | SinkClass::Blind { .. } => again,
        };
        let may_act = || self.expect_lease();
        let sent = match class.approach(doubtful) {
            Approach::Send => self.sink.send(&message, &reply, &may_act).await.map(drop),
            Approach::Probe => match self.sink.probe(&message, &reply, &[]).await {
                Ok(Probe::Present { .. }) => Ok(()),
                Ok(Probe::Absent) => self.sink.send(&message, &reply, &may_act).await.map(drop),
                Err(fault) => Err(fault),
            },
            Approach::GiveUp(failure) => return Err(failure),
        };
        let failure = match sent {
            Ok(()) => return Ok(()),
            Err(fault) => fault.failure,
        };
        match (class.approach(true), failure.class == Class::Ambiguous) {
            // It may have arrived, and nothing will ever tell.
            (Approach::GiveUp(hold), true) => Err(hold),
            (Approach::GiveUp(_) | Approach::Send | Approach::Probe, _) => Err(failure),
        }
    }
}

fn command_failure(error: &NotifyProgramError) -> Failure {
    let class = match error {
        NotifyProgramError::NotStarted { .. } => Class::Config,
        NotifyProgramError::Failed { .. } => Class::Transient,
        // It may have done its work, and would take as long again: a person looks, and asks for it.
        NotifyProgramError::Overrun { .. } => Class::Permanent,
    };
    Failure::new(class, error.to_string())
}

/// The words of a notification as the reply that a channel knows how to send.
fn as_reply(delivery: &EventDelivery, first: &MessageId, text: String) -> Reply {
    let task = &delivery.timeline.view.task;
    let first_try = delivery.subscription.first_try_at;
    Reply {
        message_id: first.clone(),
        ordinal: ORDINAL,
        key: ReplyKey::of(first, ORDINAL),
        conversation_id: task.conversation_id.clone(),
        seq: Seq(0),
        kind: ReplyKind::Notice,
        body: text,
        attachments: Vec::new(),
        state: ReplyState::Sending,
        tries: delivery.subscription.tries,
        first_try_at: first_try,
        created_at: first_try.unwrap_or(task.created_at),
    }
}

/// Whom that reply answers, as far as a channel looks at it.
fn as_message(
    task: &Task,
    first: &MessageId,
    channel: ChannelId,
    kind: SenderKind,
    workspace: &str,
) -> Message {
    let at: Timestamp = task.created_at;
    Message {
        message_id: first.clone(),
        conversation_id: ConversationId::new(task.conversation_id.as_str()),
        seq: Seq(0),
        channel,
        external_id: ExternalId::new(format!("notify:{}", task.task_id)),
        kind,
        sender: workspace.to_owned(),
        tier: Tier::Peer,
        body: String::new(),
        attachments: Vec::new(),
        said_at: at,
        hops: 0,
        round: Round(0),
        received_at: at,
        life: Life::new(at),
    }
}
