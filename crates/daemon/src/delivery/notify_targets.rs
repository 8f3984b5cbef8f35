//! How a notification goes out, by its target: a webhook, a workspace of a Molecule platform, a command of the
//! configuration, or the row itself.

use super::notification::Notification;
use crate::Daemon;
use crate::config::{AlertConfig, Config};
use bridge_channel::PostPayload;
use bridge_channel::notify::{
    Mail, Mailer, Ntfy, NtfyMessage, NtfyPriority, Target, WebPush, Webhook,
};
use bridge_core::port::{Agent, Approach, Ledger, Probe, Sink, SinkClass};
use bridge_core::step::{AlertWay, EventDelivery};
use bridge_core::value::{
    AlertDetail, ChannelId, Class, ExternalId, Failure, Life, Message, Receiver, ReceiverId, Reply,
    ReplyKey, ReplyKind, ReplyState, Round, SenderKind, Seq, Tier,
};
use bridge_front::NotificationPayload;
use bridge_host::{NotifyProgram, NotifyProgramError};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// What begins the channel of a workspace.
const MOLECULE: &str = "molecule:";
/// The place of a notification among the replies of a task's first message: none ever has it.
const ORDINAL: u32 = u32::MAX;

/// Why a command that was running when the daemon died is not run again.
const CUT: &str = "the command was running when the daemon ended, and may have done its work: look; what a task's end runs is run again by `codex-bridge notify-completed`";

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
    /// Publishes to topics.
    ntfy: Ntfy,
    /// Sends mail.
    mailer: Option<Mailer>,
    /// Sends to browsers.
    pub(crate) web_push: Option<WebPush>,
    /// Targets that are alerted, and addresses that tasks may name.
    alerts: Vec<AlertConfig>,
    /// Where links begin.
    console: String,
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
            ntfy: config.notify.ntfy(),
            mailer: config.notify.mailer(),
            web_push: Some(config.web_push()),
            alerts: config.notify.alert.clone(),
            console: config.console_url(),
        }
    }

    pub(super) fn console(&self) -> &str {
        &self.console
    }

    /// The targets of the configuration that are alerted, as rows.
    pub(crate) fn alert_receivers(&self) -> Vec<Receiver> {
        let alerted = self.alerts.iter().filter(|entry| !entry.about.is_empty());
        alerted.map(AlertConfig::receiver).collect()
    }

    /// The entry of a receiver that is a target.
    pub(super) fn alert_target(&self, id: &ReceiverId) -> Option<&AlertConfig> {
        let is_it = |entry: &&AlertConfig| entry.receiver().receiver_id == *id;
        self.alerts.iter().find(is_it)
    }

    /// What a target can do with alerts: programs get each of them, and people not too many.
    pub(crate) fn way_of(&self, id: &ReceiverId) -> Option<AlertWay> {
        let target = Target::parse(&self.alert_target(id)?.to).ok()?;
        let is_program = match target {
            Target::Webhook(_) | Target::Command(_) | Target::Other { .. } => true,
            Target::Local | Target::Molecule(_) | Target::Ntfy(_) | Target::Email(_) => false,
        };
        Some(AlertWay {
            takes_back: is_program,
            sums_up: !is_program,
        })
    }

    /// The credentials of ntfy and mail servers.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mail = self.mailer.as_ref().and_then(Mailer::secret);
        let secrets = self.ntfy.secret().into_iter().chain(mail);
        secrets.map(|secret| secret.expose().to_owned()).collect()
    }

    fn mailer(&self) -> Result<&Mailer, String> {
        let missing = "no mail is sent here: set `notify.smtp.host` and `notify.smtp.from`";
        self.mailer.as_ref().ok_or_else(|| missing.to_owned())
    }

    /// What the entry of an address lets through.
    fn text_for<'n>(
        &self,
        target: &Target,
        notification: &'n Notification,
    ) -> Result<&'n str, Failure> {
        let entry = self.listed(target);
        let entry = entry.map_err(|why| Failure::new(Class::Config, why))?;
        Ok(match entry.detail.into() {
            AlertDetail::Hint => &notification.note.text,
            AlertDetail::Headline => &notification.note.headline,
        })
    }

    /// The entry of an address that only the configuration may name.
    fn listed(&self, target: &Target) -> Result<&AlertConfig, String> {
        let is_it = |entry: &&AlertConfig| Target::parse(&entry.to).as_ref() == Ok(target);
        self.alerts.iter().find(is_it).ok_or_else(|| {
            format!(
                "notify target {target}: the configuration has no [[notify.alert]] with `to = \"{target}\"`, and tasks can name only what stands there"
            )
        })
    }

    /// With the workspaces that can be notified.
    pub(crate) fn through(mut self, molecules: impl Iterator<Item = ChannelId>) -> Self {
        self.molecules = molecules.collect();
        self
    }

    /// Whether a target can be notified, as far as that is known in advance.
    pub(crate) fn check(&self, target: &str) -> Result<(), String> {
        let target = Target::parse(target).map_err(|error| error.to_string())?;
        match &target {
            Target::Local => Ok(()),
            Target::Ntfy(topic) => {
                self.listed(&target)?;
                self.ntfy.check(topic)
            }
            Target::Email(address) => {
                self.listed(&target)?;
                self.mailer()?.check(address)
            }
            Target::Webhook(url) => match &self.webhook {
                Some(webhook) => webhook.check(url),
                None => Err("there are no webhooks here".to_owned()),
            },
            Target::Molecule(_) if self.molecules.is_empty() => Err(
                "notify target molecule:…: no workspace of a Molecule platform is configured"
                    .to_owned(),
            ),
            Target::Molecule(_) => Ok(()),
            Target::Command(name) => match self.commands.get(name) {
                Some(_) => Ok(()),
                None => Err(format!(
                    "unknown notify target command:{name}: the configuration has no [[notify.command]] of that name"
                )),
            },
            Target::Other { scheme, .. } => match self.schemes.get(scheme) {
                Some(_) => Ok(()),
                None => Err(unmapped(scheme)),
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
    pub(crate) async fn notify_end(
        &self,
        target: &str,
        delivery: &EventDelivery,
    ) -> Result<(), Failure> {
        let row = delivery.timeline.view.task.clone();
        let payload = self
            .ledger
            .read(move |rows| NotificationPayload::load(rows, &row))
            .await
            .map_err(|error| Failure::new(error.class(), error.to_string()))?;
        let settings = self.settings();
        let console = settings.start.notify.console();
        let notification =
            payload.and_then(|payload| Notification::of_task(delivery, payload, console));
        let notification = notification.ok_or_else(|| gone("the task's messages are gone"))?;
        self.notify_target(target, notification).await
    }

    /// Sends a target one notification, once.
    pub(super) async fn notify_target(
        &self,
        target: &str,
        mut notification: Notification,
    ) -> Result<(), Failure> {
        let target = Target::parse(target).map_err(|error| gone(&error.to_string()))?;
        let settings = self.settings();
        let settings = &settings.start.notify;
        let (target, address) = settings.sender(target)?;
        if let Some(Address { scheme, address }) = address {
            let body = &mut notification.body;
            body["scheme"] = scheme.into();
            body["address"] = address.into();
            body["text"] = notification.text.clone().into();
        }
        match target {
            Target::Local => Ok(()),
            // No scheme is mapped to another one.
            Target::Other { scheme, .. } => Err(gone(&unmapped(&scheme))),
            Target::Webhook(url) => {
                let webhook = settings.webhook.as_ref();
                let webhook = webhook.ok_or_else(|| gone("there are no webhooks here"))?;
                let body = notification.body.to_string();
                let payload = PostPayload {
                    id: &notification.id,
                    body: &body,
                };
                webhook.deliver(&url, payload).await
            }
            Target::Command(_) if notification.again => Err(gone(CUT)),
            Target::Command(name) => {
                let command = settings.commands.get(&name).ok_or_else(|| {
                    let reason = format!(
                        "the configuration has no [[notify.command]] {name} any more: put it back"
                    );
                    Failure::new(Class::Config, reason)
                })?;
                let mut body = notification.body;
                body["id"] = notification.id.into();
                body["text"] = notification.text.into();
                let sent = command.tell(format!("{body}\n").into_bytes()).await;
                sent.map_err(|error| command_failure(&error))
            }
            Target::Molecule(workspace) => {
                let way = settings.way(&workspace).ok_or_else(|| {
                    let reason = "no workspace of a Molecule platform is configured any more";
                    Failure::new(Class::Config, reason)
                })?;
                self.tell_workspace(&notification, &workspace, way).await
            }
            Target::Ntfy(ref topic) => {
                let text = settings.text_for(&target, &notification)?;
                publish(&settings.ntfy, topic, text, &notification).await
            }
            Target::Email(ref address) => {
                let text = settings.text_for(&target, &notification)?;
                let mailer = settings.mailer();
                let mailer = mailer.map_err(|why| Failure::new(Class::Config, why))?;
                let mail = Mail {
                    id: &notification.id,
                    subject: &notification.note.title,
                    text: &format!("{text}\n\n{}\n", notification.note.link),
                };
                mailer.send(address, mail).await
            }
        }
    }

    /// Tells a workspace as a reply would be: a bubble on the own canvas, a message to a peer.
    async fn tell_workspace(
        &self,
        notification: &Notification,
        workspace: &str,
        (channel, kind): (ChannelId, SenderKind),
    ) -> Result<(), Failure> {
        let again = notification.again;
        let message = as_message(notification, channel, kind, workspace);
        let reply = as_reply(notification);
        let class = self.sink.traits(&message).class;
        let doubtful = match class {
            // A look costs nothing, and an earlier try may have been seen.
            SinkClass::Probeable => again || notification.tries > 1,
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

async fn publish(
    ntfy: &Ntfy,
    topic: &str,
    text: &str,
    notification: &Notification,
) -> Result<(), Failure> {
    let note = &notification.note;
    let message = NtfyMessage {
        title: &note.title,
        text,
        link: Some(&note.link),
        priority: match note.is_urgent {
            true => NtfyPriority::High,
            false => NtfyPriority::Default,
        },
    };
    ntfy.publish(topic, message).await
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
fn as_reply(notification: &Notification) -> Reply {
    Reply {
        message_id: notification.reply_of.clone(),
        ordinal: ORDINAL,
        key: ReplyKey::of(&notification.reply_of, ORDINAL),
        conversation_id: notification.conversation_id.clone(),
        seq: Seq(0),
        kind: ReplyKind::Notice,
        body: notification.text.clone(),
        attachments: Vec::new(),
        state: ReplyState::Sending,
        tries: notification.tries,
        first_try_at: notification.first_try_at,
        created_at: notification.created_at,
    }
}

/// Whom that reply answers, as far as a channel looks at it.
fn as_message(
    notification: &Notification,
    channel: ChannelId,
    kind: SenderKind,
    workspace: &str,
) -> Message {
    let at = notification.created_at;
    Message {
        message_id: notification.reply_of.clone(),
        conversation_id: notification.conversation_id.clone(),
        seq: Seq(0),
        channel,
        external_id: ExternalId::new(format!("notify:{}", notification.id)),
        kind,
        sender: workspace.to_owned(),
        tier: Tier::Peer,
        body: String::new(),
        attachments: Vec::new(),
        said_at: at,
        hops: 0,
        round: Round(0),
        received_at: at,
        trace: None,
        life: Life::new(at),
    }
}
