//! Posts A2A push notifications: the front makes their bodies, the channel posts them.

use crate::config::Config;
use bridge_channel::PostPayload;
use bridge_channel::a2a::push::{Pusher, Receiver};
use bridge_channel::guard::{AddressGuard, check_origin};
use bridge_core::step::EventDelivery;
use bridge_core::value::{Failure, PushTarget, Subscription};
use bridge_front::a2a::push_payload;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// A delivery under way.
pub(crate) type Delivering<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// Posts push notifications; a script in tests.
pub(crate) trait PushClient: Debug + Send + Sync {
    /// Why nothing can be posted there.
    fn check(&self, subscription: &Subscription) -> Result<(), String>;
    /// Posts one event once.
    fn deliver<'a>(&'a self, delivery: &'a EventDelivery) -> Delivering<'a>;
}

/// Posts them over HTTP.
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
            pusher: Pusher::new(AddressGuard::new(origins.collect())),
            base: config.http.public_url.clone(),
        }
    }
}

impl PushClient for HttpPushClient {
    fn check(&self, subscription: &Subscription) -> Result<(), String> {
        match subscription.push() {
            Some(push) => self.pusher.check(receiver(push)),
            None => Ok(()),
        }
    }

    fn deliver<'a>(&'a self, delivery: &'a EventDelivery) -> Delivering<'a> {
        Box::pin(async move {
            let Some(push) = delivery.subscription.push() else {
                return Ok(());
            };
            let body = push_payload(self.base.as_deref(), delivery).to_string();
            let (task_id, mark) = (&delivery.subscription.task_id, &delivery.task_event.mark);
            let id = format!("{task_id}/{mark}");
            let news = PostPayload {
                id: &id,
                body: &body,
            };
            self.pusher.deliver(receiver(push), news).await
        })
    }
}

fn receiver(push: &PushTarget) -> Receiver<'_> {
    let authorization = push.authorization.as_ref();
    Receiver {
        url: &push.url,
        token: push.token.as_deref(),
        scheme: authorization.map(|(scheme, _)| scheme.as_str()),
        credentials: authorization.map(|(_, credentials)| credentials.as_str()),
    }
}
