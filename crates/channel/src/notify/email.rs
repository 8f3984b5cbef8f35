//! E-mail: one message to one address, over the operator's SMTP server.
//!
//! Addresses come from the configuration alone, and the library writes the headers: no text can add one.

use crate::secret::{Secret, SecretFile};
use bridge_core::value::{Class, Failure};
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::{AsyncSmtpTransport, Error as SmtpError};
use lettre::{AsyncTransport, Tokio1Executor};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long each answer of the server may take.
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);
/// How long the whole conversation may take.
const SEND_DEADLINE: Duration = Duration::from_secs(60);
/// The longest file with a password.
const FILE_MAX_BYTES: u64 = 4_096;
/// SMTP's word for a login that is not good.
const BAD_LOGIN: u16 = 535;
/// The same, where a login is missing.
const NO_LOGIN: u16 = 530;

/// How the way to the server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// From the first byte.
    Tls,
    /// Before anything is said; a server that does not offer it is sent nothing.
    StartTls,
    /// Not at all: for a server of this machine.
    None,
}

/// Sends mail through one server.
#[derive(Clone, Debug)]
pub struct Mailer {
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    pub from: String,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Mail<'a> {
    /// The same for every try: mail programs show a message with a known id once.
    pub id: &'a str,
    pub subject: &'a str,
    pub text: &'a str,
}

impl Mailer {
    /// Why nothing can be sent to an address.
    pub fn check(&self, to: &str) -> Result<(), String> {
        mailbox(to)?;
        mailbox(&self.from).map_err(|why| format!("`notify.smtp.from`: {why}"))?;
        if self.tls == MailTls::None && !is_here(&self.host) {
            return Err(format!(
                "{} is another machine, and `tls = \"none\"` is for a server of this one: use \"tls\" or \"starttls\"",
                self.host
            ));
        }
        self.credentials().map(drop)
    }

    /// The password: no text may carry it.
    #[must_use]
    pub fn secret(&self) -> Option<Secret> {
        read_password(self.password_file.as_deref()?).ok()
    }

    /// Sends one message once.
    pub async fn send(&self, to: &str, mail: Mail<'_>) -> Result<(), Failure> {
        let config = |reason| Failure::new(Class::Config, reason);
        self.check(to).map_err(config)?;
        let message = self.message(to, mail).map_err(config)?;
        let transport = self.transport().map_err(config)?;
        let sent = tokio::time::timeout(SEND_DEADLINE, transport.send(message)).await;
        match sent {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => Err(Failure::new(
                Class::Ambiguous,
                format!("the mail server {} did not answer in time", self.host),
            )),
        }
    }

    fn message(&self, to: &str, mail: Mail<'_>) -> Result<Message, String> {
        let from = mailbox(&self.from)?;
        let id = format!("<{}@{}>", mail.id, from.email.domain());
        let own = HeaderName::new_from_ascii_str("Auto-Submitted");
        Message::builder()
            .from(from)
            .to(mailbox(to)?)
            .subject(mail.subject)
            .message_id(Some(id))
            .raw_header(HeaderValue::new(own, "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN)
            .body(mail.text.to_owned())
            .map_err(|error| format!("the mail could not be written: {error}"))
    }

    fn transport(&self) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
        let parameters = || {
            TlsParameters::new(self.host.clone())
                .map_err(|error| format!("TLS to {} is not possible: {error}", self.host))
        };
        let tls = match self.tls {
            MailTls::Tls => Tls::Wrapper(parameters()?),
            MailTls::StartTls => Tls::Required(parameters()?),
            MailTls::None => Tls::None,
        };
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&*self.host);
        let builder = builder
            .port(self.port)
            .tls(tls)
            .timeout(Some(ANSWER_DEADLINE));
        Ok(match self.credentials()? {
            Some(credentials) => builder.credentials(credentials).build(),
            None => builder.build(),
        })
    }

    fn credentials(&self) -> Result<Option<Credentials>, String> {
        match (&self.user, &self.password_file) {
            (Some(user), Some(path)) => {
                let password = read_password(path)?.expose().to_owned();
                Ok(Some(Credentials::new(user.clone(), password)))
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err("`notify.smtp.user` needs a `password_file`".to_owned()),
            (None, Some(_)) => Err("`notify.smtp.password_file` needs a `user`".to_owned()),
        }
    }

    /// Until the message is whole the server has none, so only silence is not known.
    fn failed(&self, error: &SmtpError) -> Failure {
        let code = error.status().map(u16::from);
        let class = match code {
            Some(BAD_LOGIN | NO_LOGIN) => Class::Config,
            _ if error.is_permanent() => Class::Permanent,
            _ if error.is_timeout() => Class::Ambiguous,
            _ if error.is_tls() || error.is_client() => Class::Config,
            _ => Class::Transient,
        };
        let said = match code {
            Some(code) => format!("the mail server {} answered {code}", self.host),
            None => format!("the mail server {}: {error}", self.host),
        };
        Failure::new(class, said)
    }
}

fn mailbox(address: &str) -> Result<Mailbox, String> {
    let parsed = address.parse();
    let email = parsed.map_err(|_| format!("{address:?} is no e-mail address"))?;
    Ok(Mailbox::new(None, email))
}

fn is_here(host: &str) -> bool {
    let address: Result<IpAddr, _> = host.parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn read_password(path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    let file = SecretFile::read(path, FILE_MAX_BYTES).map_err(|error| {
        format!("the file of the SMTP password {shown} can't be read ({error})")
    })?;
    if !file.is_private {
        return Err(format!(
            "the file of the SMTP password {shown} can be read by others: chmod 600 {shown}"
        ));
    }
    match file.text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("the file of the SMTP password {shown} is empty")),
        password => Ok(Secret::new(password)),
    }
}

#[cfg(test)]
mod tests;
