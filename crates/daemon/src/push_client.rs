//! How one task_event of a task goes out: the front says how it looks on the wire, the channel posts it.

use crate::config::Config;
use bridge_channel::a2a::push::{Pushed, Pusher, Receiver};
use bridge_channel::guard::{Guard, check_origin};
use bridge_core::step::Telling;
use bridge_core::value::{Failure, Push};
use bridge_front::a2a::pushed;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// A delivery under way.
pub(super) type Delivering<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// Tells the owners of tasks; a script in tests.
pub(crate) trait PushClient: Debug + Send + Sync {
    /// Why nobody can be told there.
    fn check(&self, push: &Push) -> Result<(), String>;
    /// Tells one thing once.
    fn deliver<'a>(&'a self, telling: &'a Telling) -> Delivering<'a>;
}

/// Tells them over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct HttpPushClient {
    pusher: Pusher,
    /// Where this server is reached, for the addresses of files.
    base: Option<String>,
}

impl HttpPushClient {
    pub(crate) fn new(config: &Config) -> Self {
        let origins = config.a2a.allow_origins.iter();
        let origins = origins.flat_map(|text| check_origin(text));
        Self {
            pusher: Pusher::new(Guard::new(origins.collect())),
            base: config.http.public_url.clone(),
        }
    }
}

impl PushClient for HttpPushClient {
    fn check(&self, push: &Push) -> Result<(), String> {
        self.pusher.check(receiver(push))
    }

    fn deliver<'a>(&'a self, telling: &'a Telling) -> Delivering<'a> {
        Box::pin(async move {
            let body = pushed(self.base.as_deref(), telling).to_string();
            let Telling {
                push, task_event, ..
            } = telling;
            let id = format!("{}/{}", push.task_id, task_event.mark);
            let news = Pushed {
                id: &id,
                body: &body,
            };
            self.pusher.deliver(receiver(push), news).await
        })
    }
}

fn receiver(push: &Push) -> Receiver<'_> {
    let authorization = push.authorization.as_ref();
    Receiver {
        url: &push.url,
        token: push.token.as_deref(),
        scheme: authorization.map(|(scheme, _)| scheme.as_str()),
        credentials: authorization.map(|(_, credentials)| credentials.as_str()),
    }
}
