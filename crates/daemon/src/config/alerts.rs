//! The keys `[[notify.alert]]`, `[notify.ntfy]` and `[notify.smtp]`: who is alerted to questions, failures and ends of tasks,
//! and how topics and mailboxes are reached.

use super::http::CONSOLE_ADDRESS;
use super::keys::Config;
use super::tasks::NotifyConfig;
use bridge_channel::guard::{AddressGuard, check_origin};
use bridge_channel::notify::{MailTls, Mailer, Ntfy, Target, WebPush};
use bridge_core::limits::ALERT_TARGETS_MAX;
use bridge_core::value::{AlertDetail, AlertKind, Receiver, ReceiverId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Whom operators of push services can ask where this bridge has no address of its own.
const NO_CONTACT: &str = "mailto:codex-bridge@localhost.localdomain";

/// One target of alerts: questions, failures and ends of tasks, whoever began them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AlertConfig {
    /// Where it goes: `ntfy:TOPIC` or `ntfy:https://ntfy.example/TOPIC`, `email:ADDRESS`, `webhook:https://…`,
    /// `command:NAME`, `molecule:<workspace id>`, or `<scheme>:<address>` of `notify.schemes`. Tasks may name `ntfy:` and
    /// `email:` targets that stand here, and no others.
    #[schemars(length(min = 1))]
    pub to: String,
    /// What it is alerted to: `question` (Codex asks, and somebody must decide), `failure` (a message that was given up or
    /// waits for a person) and `task` (a task has ended). Empty: only tasks that name it.
    pub about: Vec<AlertAbout>,
    /// `hint` tells the kind and our own ids, and nothing that Codex or a sender wrote; `headline` also the first line.
    pub detail: AlertText,
}

/// What alerts are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertAbout {
    Question,
    Failure,
    Task,
}

/// How much of it they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertText {
    #[default]
    Hint,
    Headline,
}

/// The ntfy server for `ntfy:TOPIC`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NtfyConfig {
    /// Its address, such as "https://ntfy.example"; it may be one of your own network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub server: Option<String>,
    /// A file of mode 0600 with the access token for that server, on one line. It is read for every call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub token_file: Option<PathBuf>,
}

/// The mail server for `email:ADDRESS`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SmtpConfig {
    /// Its name, such as "mail.example.org". Without it no mail is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub host: Option<String>,
    /// Its port; 465, 587 or 25 by `tls` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16", range(min = 1))]
    pub port: Option<u16>,
    /// `tls` from the first byte, `starttls` before anything is said, or `none` for a server of this machine.
    pub tls: SmtpTls,
    /// The login, where the server asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub user: Option<String>,
    /// A file of mode 0600 with its password, on one line. It is read for every mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub password_file: Option<PathBuf>,
    /// The address that mail is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub from: Option<String>,
}

/// How the way to the mail server is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SmtpTls {
    #[default]
    Tls,
    StartTls,
    None,
}

impl From<SmtpTls> for MailTls {
    fn from(tls: SmtpTls) -> Self {
        match tls {
            SmtpTls::Tls => Self::Tls,
            SmtpTls::StartTls => Self::StartTls,
            SmtpTls::None => Self::None,
        }
    }
}

impl SmtpConfig {
    /// What sends mail; nothing without host and sender.
    fn mailer(&self) -> Option<Mailer> {
        let usual = match self.tls {
            SmtpTls::Tls => 465,
            SmtpTls::StartTls => 587,
            SmtpTls::None => 25,
        };
        Some(Mailer {
            host: self.host.clone()?,
            port: self.port.unwrap_or(usual),
            tls: self.tls.into(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            from: self.from.clone()?,
        })
    }
}

impl Default for AlertConfig {
    fn default() -> Self {
        Self {
            to: String::new(),
            about: vec![AlertAbout::Question, AlertAbout::Failure, AlertAbout::Task],
            detail: AlertText::Hint,
        }
    }
}

impl From<AlertAbout> for AlertKind {
    fn from(about: AlertAbout) -> Self {
        match about {
            AlertAbout::Question => Self::Question,
            AlertAbout::Failure => Self::Failure,
            AlertAbout::Task => Self::Task,
        }
    }
}

impl From<AlertText> for AlertDetail {
    fn from(text: AlertText) -> Self {
        match text {
            AlertText::Hint => Self::Hint,
            AlertText::Headline => Self::Headline,
        }
    }
}

impl AlertConfig {
    /// Its row. The target itself stays in the configuration: it may hold a secret.
    pub(crate) fn receiver(&self) -> Receiver {
        Receiver {
            receiver_id: ReceiverId::of("target", self.to.trim()),
            device: None,
            about: self.about.iter().map(|about| (*about).into()).collect(),
            detail: self.detail.into(),
            error: None,
            created_at: Timestamp(0),
        }
    }
}

impl NotifyConfig {
    /// What sends mail.
    pub(crate) fn mailer(&self) -> Option<Mailer> {
        self.smtp.mailer()
    }

    /// What publishes to topics.
    pub(crate) fn ntfy(&self) -> Ntfy {
        let server = self.ntfy.server.as_deref();
        let server = server.and_then(|text| check_origin(text).ok());
        let origins = self.allow_origins.iter();
        let origins = origins.flat_map(|text| check_origin(text)).collect();
        Ntfy::new(server, self.ntfy.token_file.clone(), origins)
    }
}

impl Config {
    /// What sends to browsers. Their push services are on the public network, but for the origins that are listed.
    pub(crate) fn web_push(&self) -> WebPush {
        let origins = self.notify.allow_origins.iter();
        let origins = origins.flat_map(|text| check_origin(text)).collect();
        let public = self.http.public_url.clone();
        let contact = public.filter(|url| url.starts_with("https://"));
        let contact = contact.unwrap_or_else(|| NO_CONTACT.to_owned());
        WebPush::new(AddressGuard::new(origins), contact)
    }

    /// Where links to the console begin, with a slash at the end.
    pub(crate) fn console_url(&self) -> String {
        match (&self.http.public_url, self.http.address()) {
            (Some(url), _) => format!("{}/console/", url.trim_end_matches('/')),
            (None, Some(address)) if address.ip().is_loopback() && address.port() != 0 => {
                format!("http://{address}/console/")
            }
            (None, _) => format!("http://{CONSOLE_ADDRESS}/console/"),
        }
    }
}

/// What is wrong with the values, each with its key.
pub(super) fn problems(notify: &NotifyConfig) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(server) = &notify.ntfy.server
        && let Err(refusal) = check_origin(server)
    {
        let what = format!(
            "is {server:?}, which is no address of a server ({refusal}); write something like \"https://ntfy.example\""
        );
        found.push(("notify.ntfy.server".to_owned(), what));
    }
    if notify.alert.len() > ALERT_TARGETS_MAX {
        let what = format!("has more than {ALERT_TARGETS_MAX} entries");
        found.push(("notify.alert".to_owned(), what));
    }
    for (at, alert) in notify.alert.iter().enumerate() {
        let twice = notify
            .alert
            .iter()
            .take(at)
            .any(|other| other.to == alert.to);
        let problem = match refuse_target(notify, &alert.to) {
            Some(what) => Some(what),
            None if twice => Some("is named twice".to_owned()),
            None => None,
        };
        found.extend(problem.map(|what| (format!("notify.alert.{at}.to"), what)));
    }
    found
}

/// Why a target can't be alerted.
fn refuse_target(notify: &NotifyConfig, to: &str) -> Option<String> {
    let target = match Target::parse(to) {
        Ok(target) => target,
        Err(error) => return Some(format!("can't be used: {error}")),
    };
    let refused = match target {
        Target::Local => Err("reaches nobody; name a receiver".to_owned()),
        Target::Webhook(url) => notify.webhook().check(&url),
        Target::Ntfy(topic) => notify.ntfy().check(&topic),
        Target::Email(address) => match notify.mailer() {
            Some(mailer) => mailer.check(&address),
            None => Err("set `notify.smtp.host` and `notify.smtp.from`".to_owned()),
        },
        Target::Command(name) if notify.command.iter().any(|one| one.name == name) => Ok(()),
        Target::Command(name) => Err(format!("there is no [[notify.command]] {name}")),
        Target::Other { scheme, .. } if notify.schemes.contains_key(&scheme) => Ok(()),
        Target::Other { scheme, .. } => Err(format!("`notify.schemes` does not have {scheme}")),
        Target::Molecule(_) => Ok(()),
    };
    refused
        .err()
        .map(|why| format!("is {to:?}, which can't be used: {why}"))
}
