//! Push notification configurations: kept and forgotten through the service. What is sent, and where it may go, is the
//! daemon's.

use super::get::owned;
use crate::a2a::call::A2aCall;
use crate::a2a::error::A2aError;
use crate::{BridgeService, PushPut, TokenHash};
use a2a::{
    AuthenticationInfo, DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, TaskPushNotificationConfig,
};
use bridge_core::limits::{PUSHES_PER_OWNER_MAX, PUSHES_PER_TASK_MAX};
use bridge_core::port::Read;
use bridge_core::task_events::{FROM_NOW, Timeline};
use bridge_core::value::{PushTarget, Subscription, SubscriptionState, SubscriptionTarget, TaskId};

pub(super) async fn create<D: BridgeService>(
    call: &A2aCall<D>,
    config: TaskPushNotificationConfig,
) -> Result<TaskPushNotificationConfig, A2aError> {
    let view = owned(&call.context.service, &call.caller, &config.task_id).await?;
    put(call, &view.task.task_id, config, Since::Now, "url").await
}

/// Which events a new configuration gets.
#[derive(Clone, Debug)]
pub(super) enum Since {
    /// All of them, from the beginning of the task.
    Beginning,
    /// Those after this mark.
    Behind(Option<String>),
    /// Those that are not there yet.
    Now,
}

impl Since {
    /// After the newest event of a task.
    pub(super) async fn now_of<D: BridgeService>(
        call: &A2aCall<D>,
        id: &TaskId,
    ) -> Result<Self, A2aError> {
        let task_id = id.clone();
        let read = move |rows: &dyn Read| Timeline::load(rows, &task_id);
        let timeline = call.context.service.read(read).await?;
        let last = timeline.and_then(|timeline| timeline.task_events().pop());
        Ok(Self::Behind(last.map(|task_event| task_event.mark)))
    }
}

/// A configuration that came with a message. Where repeats of the message are known again, so is the configuration: it
/// has a name that comes from the key.
pub(super) fn inline(
    config: TaskPushNotificationConfig,
    key: Option<&str>,
) -> TaskPushNotificationConfig {
    let id = config.id.filter(|id| !id.is_empty());
    TaskPushNotificationConfig {
        id: id.or_else(|| key.map(|key| TokenHash::of(key).hex())),
        ..config
    }
}

/// Keeps a configuration; `field` is what is wrong when its address may not be.
pub(super) async fn put<D: BridgeService>(
    call: &A2aCall<D>,
    task_id: &TaskId,
    config: TaskPushNotificationConfig,
    since: Since,
    field: &str,
) -> Result<TaskPushNotificationConfig, A2aError> {
    let push = wanted(call, task_id, config, since);
    let put = call
        .context
        .service
        .put_push(push.clone(), &call.caller.name);
    match put.await? {
        PushPut::Put => Ok(shown(&push)),
        PushPut::Unknown => Err(A2aError::task_not_found(task_id.as_str())),
        PushPut::Refused { why } => Err(A2aError::invalid(field, why)),
    }
}

/// Whether a configuration could be kept, asked before its message is stored: nothing is done for one that is refused.
pub(super) async fn check<D: BridgeService>(
    call: &A2aCall<D>,
    task_id: Option<&TaskId>,
    config: &TaskPushNotificationConfig,
    field: &str,
) -> Result<(), A2aError> {
    let nobodys = TaskId::new("");
    let push = wanted(call, &nobodys, config.clone(), Since::Beginning);
    let task_id = task_id.cloned().unwrap_or(nobodys);
    let (config_id, owner) = (push.subscription_id.clone(), call.caller.name.clone());
    let service = &call.context.service;
    if let PushPut::Refused { why } = service.put_push(push, &owner).await? {
        return Err(A2aError::invalid(field, why));
    }
    let counted = service.read(move |rows| {
        let known = rows.subscription(&task_id, &config_id)?.is_some();
        Ok((
            known,
            rows.subscriptions_of(&task_id)?.len(),
            rows.pushes_held(&owner)?,
        ))
    });
    let (known, here, held) = counted.await?;
    let full = here >= PUSHES_PER_TASK_MAX as usize || held >= u64::from(PUSHES_PER_OWNER_MAX);
    if full && !known {
        Err(A2aError::invalid(
            field,
            "there are as many push notification configurations as are kept; delete one",
        ))
    } else {
        Ok(())
    }
}

fn wanted<D: BridgeService>(
    call: &A2aCall<D>,
    task_id: &TaskId,
    config: TaskPushNotificationConfig,
    since: Since,
) -> Subscription {
    let id = config.id.filter(|id| !id.is_empty());
    Subscription {
        task_id: task_id.clone(),
        subscription_id: id.unwrap_or_else(a2a::new_artifact_id),
        target: SubscriptionTarget::Push(PushTarget {
            url: config.url,
            token: config.token.filter(|token| !token.is_empty()),
            authorization: config
                .authentication
                .map(|auth| (auth.scheme, auth.credentials.unwrap_or_default())),
            unreadable: false,
            version: call.version.as_str().to_owned(),
        }),
        state: SubscriptionState::Waiting { not_before: None },
        mark: match since {
            Since::Beginning => None,
            Since::Behind(mark) => mark,
            Since::Now => Some(FROM_NOW.to_owned()),
        },
        tries: 0,
        first_try_at: None,
        error: None,
        created_at: call.context.service.now(),
    }
}

pub(super) async fn get<D: BridgeService>(
    call: &A2aCall<D>,
    request: GetTaskPushNotificationConfigRequest,
) -> Result<TaskPushNotificationConfig, A2aError> {
    let service = &call.context.service;
    let view = owned(service, &call.caller, &request.task_id).await?;
    let (task_id, config_id) = (view.task.task_id, request.id.clone());
    let read = move |rows: &dyn Read| rows.subscription(&task_id, &config_id);
    let found = service.read(read).await?;
    found
        .as_ref()
        .map(shown)
        .ok_or_else(|| A2aError::push_not_found(&request.task_id, &request.id))
}

/// All of them: there are few of one task.
pub(super) async fn list<D: BridgeService>(
    call: &A2aCall<D>,
    request: ListTaskPushNotificationConfigsRequest,
) -> Result<ListTaskPushNotificationConfigsResponse, A2aError> {
    let service = &call.context.service;
    let view = owned(service, &call.caller, &request.task_id).await?;
    let task_id = view.task.task_id;
    let read = move |rows: &dyn Read| rows.subscriptions_of(&task_id);
    let found = service.read(read).await?;
    Ok(ListTaskPushNotificationConfigsResponse {
        configs: found.iter().map(shown).collect(),
        next_page_token: None,
    })
}

/// One that is not there is fine: deleting twice is deleting once.
pub(super) async fn delete<D: BridgeService>(
    call: &A2aCall<D>,
    request: DeleteTaskPushNotificationConfigRequest,
) -> Result<(), A2aError> {
    let task_id = TaskId::new(request.task_id.as_str());
    let service = &call.context.service;
    if service
        .drop_push(&task_id, &request.id, &call.caller.name)
        .await?
    {
        Ok(())
    } else {
        Err(A2aError::task_not_found(&request.task_id))
    }
}

/// As its owner sees it.
fn shown(subscription: &Subscription) -> TaskPushNotificationConfig {
    let push = subscription.push();
    TaskPushNotificationConfig {
        url: push.map(|push| push.url.clone()).unwrap_or_default(),
        id: Some(subscription.subscription_id.clone()),
        task_id: subscription.task_id.to_string(),
        token: push.and_then(|push| push.token.clone()),
        authentication: push.and_then(|push| push.authorization.clone()).map(
            |(scheme, credentials)| AuthenticationInfo {
                scheme,
                credentials: (!credentials.is_empty()).then_some(credentials),
            },
        ),
        tenant: None,
    }
}
