//! Routes notifications and approval requests of one connection to the mailboxes of its followers.
//!
//! A request for a thread without a follower waits for one: after a broken connection Codex repeats its requests as soon
//! as the thread is loaded, which may be before it is known which of its turns is ours.

use crate::app_server::account::AccountState;
use crate::app_server::wall_now;
use crate::locked;
use crate::turn::answer::{RequestReply, reply};
use crate::turn::approvals::{self, ConnectionRequests};
use crate::turn::mailbox::{Mailbox, TurnContext};
use crate::turn::raw::is_part;
use crate::turn::unconfirmed::Overdue;
use bridge_codex::rpc::RawId;
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::{Notification, RequestOutcome, ServerRequest};
use bridge_core::port::{RequestKey, TurnEvent};
use bridge_core::value::{RequestVerdict, ThreadId, TurnId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// All mailboxes of one connection, by thread. Lock order: `by_thread`, then `requests`.
#[derive(Debug, Default)]
pub(crate) struct TurnRouter {
    by_thread: Mutex<HashMap<ThreadId, Arc<Mailbox>>>,
    requests: Mutex<ConnectionRequests>,
    account: Arc<AccountState>,
}

impl TurnRouter {
    pub(crate) fn new(account: Arc<AccountState>) -> Self {
        Self {
            account,
            ..Self::default()
        }
    }

    /// Opens a mailbox for a turn that is about to start on an idle thread.
    pub(crate) fn open(
        &self,
        fold: TurnFold,
        thread: ThreadId,
        frame: TurnContext,
    ) -> Arc<Mailbox> {
        self.insert(Mailbox::folding(fold, frame), thread)
    }

    /// Opens a mailbox for a thread whose history is about to be read, so that nothing that arrives meanwhile is missed.
    /// Open requests that an earlier follower received are delivered again, whether or not Codex repeats them.
    pub(crate) fn open_early(&self, thread: ThreadId, frame: TurnContext) -> Arc<Mailbox> {
        let mailbox = Mailbox::early(frame);
        for request in locked(&self.requests).open_on(&thread) {
            mailbox.ask(&request);
        }
        self.insert(mailbox, thread)
    }

    fn insert(&self, mailbox: Mailbox, thread: ThreadId) -> Arc<Mailbox> {
        let mailbox = Arc::new(mailbox);
        // Both locks are held until the mailbox can be found: a request that arrives in between would be put among the
        // undelivered ones, and nobody would look there again.
        let mut boxes = locked(&self.by_thread);
        let mut requests = locked(&self.requests);
        for request in requests.take_undelivered(&thread) {
            mailbox.ask(&request);
            requests.delivered(request);
        }
        for request in requests.take_settled(&thread) {
            mailbox.report_settled(&request);
        }
        boxes.insert(thread, Arc::clone(&mailbox));
        mailbox
    }

    /// Closes a mailbox, unless a newer one replaced it. Requests that its follower never received wait for the next one.
    pub(crate) fn close(&self, thread: &ThreadId, mailbox: &Arc<Mailbox>) {
        let mut boxes = locked(&self.by_thread);
        let present = boxes.get(thread);
        if present.is_some_and(|present| Arc::ptr_eq(present, mailbox)) {
            boxes.remove(thread);
            let mut requests = locked(&self.requests);
            for request in mailbox.take_undelivered_requests() {
                requests.undelivered(request, Instant::now());
            }
        }
    }

    /// Whether a turn of this thread is followed or looked up.
    pub(crate) fn has(&self, thread: &ThreadId) -> bool {
        locked(&self.by_thread).contains_key(thread)
    }

    /// Whether no turn is followed or looked up.
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.by_thread).is_empty()
    }

    fn of(&self, thread: Option<&ThreadId>) -> Option<Arc<Mailbox>> {
        locked(&self.by_thread).get(thread?).cloned()
    }

    /// Delivers a notification as it came to the follower of its thread, if that one wants it.
    pub(crate) fn raw_line(&self, notification: &Notification, text: &str) {
        if is_part(notification.method()) {
            return;
        }
        if let Some(mailbox) = self.of(notification.thread_id()) {
            mailbox.raw_line(notification.method(), text);
        }
    }

    /// Codex says that this turn does not run.
    pub(crate) fn expect_end(&self, thread: &ThreadId, turn_id: &TurnId) {
        if let Some(mailbox) = self.of(Some(thread)) {
            mailbox.expect_end(turn_id);
        }
    }

    pub(crate) fn deliver(&self, notification: &Notification) {
        let mailbox = self.of(notification.thread_id());
        let settled = locked(&self.requests).settle(notification);
        // Before the notification itself: the end of a turn must not overtake the confirmation of its answers.
        for request in settled.confirmed {
            confirm(mailbox.as_deref(), &request);
        }
        match (mailbox, settled.unanswered) {
            (None, None) => {}
            (None, Some(request)) => locked(&self.requests).settled(request),
            (Some(mailbox), unanswered) => {
                if let Some(request) = unanswered {
                    mailbox.resolve(&request);
                }
                let resets_at = self.account.resets_at(wall_now());
                mailbox.deliver(notification, resets_at);
            }
        }
    }

    /// Delivers a request to the follower of its thread, or keeps it for one. Refused if nobody can decide it, if too
    /// many are open, or if it was answered already: then the same answer is sent again and no follower receives it.
    pub(crate) fn ask(&self, request: ServerRequest, now: Instant) -> Result<(), RequestRefused> {
        let boxes = locked(&self.by_thread);
        let mailbox = request.thread_id().and_then(|thread| boxes.get(thread));
        let mailbox = mailbox.filter(|mailbox| !mailbox.is_over());
        let mut requests = locked(&self.requests);
        if let Some(outcome) = requests.answered.asked_again(&request) {
            return Err(RequestRefused::Answered(outcome, request.id));
        }
        if requests.is_full() || !approvals::is_decidable(&request) {
            if let Some(mailbox) = mailbox {
                mailbox.report_declined(&request);
            }
            return Err(RequestRefused::Undecidable(Box::new(request)));
        }
        if request.thread_id().is_none() {
            return Err(RequestRefused::Undecidable(Box::new(request)));
        }
        match mailbox {
            Some(mailbox) => {
                mailbox.ask(&request);
                requests.delivered(request);
            }
            None => {
                tracing::warn!(method = %request.method, "codex asks, and nobody follows that turn yet");
                requests.undelivered(request, now);
            }
        }
        Ok(())
    }

    /// Requests that waited too long for a follower.
    pub(crate) fn expire(&self, now: Instant) -> Vec<ServerRequest> {
        locked(&self.requests).expire(now)
    }

    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        locked(&self.requests).next_expiry()
    }

    /// The request with this key, if Codex still waits for it.
    pub(crate) fn open_request(&self, to: &RequestKey) -> Option<ServerRequest> {
        locked(&self.requests).find(to).cloned()
    }

    /// Removes an open request. Only the caller that gets `true` may answer it: others answered it, or Codex settled it.
    pub(crate) fn take(&self, id: &RawId) -> bool {
        locked(&self.requests).close(id).is_some()
    }

    /// Records the answer that is about to be sent. `false` if another caller answered, or Codex settled the request.
    pub(crate) fn answer(&self, id: &RawId, outcome: RequestOutcome, now: Instant) -> bool {
        locked(&self.requests).answer(id, outcome, now)
    }

    /// Records the answer to a request that was removed with [`TurnRouter::take`].
    pub(crate) fn answered(&self, request: ServerRequest, outcome: RequestOutcome, now: Instant) {
        let mut requests = locked(&self.requests);
        requests.answered.insert(request, outcome, now);
    }

    /// Whether this same answer was sent and is not confirmed yet.
    pub(crate) fn is_answered_so(&self, to: &RequestKey, verdict: &RequestVerdict) -> bool {
        let requests = locked(&self.requests);
        let unconfirmed = requests.unconfirmed(to);
        unconfirmed.is_some_and(|(request, said)| {
            matches!(reply(request, verdict), Ok(RequestReply::Send(same)) if same == *said)
        })
    }

    /// Next steps for answers that Codex does not confirm.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<Overdue> {
        locked(&self.requests).answered.expire(now)
    }

    /// Codex resumed the thread of an answer that it does not confirm.
    pub(crate) fn resumed(&self, id: &RawId) {
        locked(&self.requests).answered.resumed(id);
    }

    /// Codex refused to resume the thread.
    pub(crate) fn not_resumed(&self, id: &RawId) {
        locked(&self.requests).answered.not_resumed(id);
    }

    /// Codex has the answer to this request.
    pub(crate) fn confirm(&self, request: &ServerRequest) {
        confirm(self.of(request.thread_id()).as_deref(), request);
    }

    /// Ends all streams, because the connection is gone.
    pub(crate) fn lose_all(&self, why: &str) {
        for (_, mailbox) in locked(&self.by_thread).drain() {
            mailbox.push(TurnEvent::Lost {
                why: why.to_owned(),
            });
        }
    }
}

/// Why a request is not delivered.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestRefused {
    /// It was answered before; send this answer again.
    Answered(RequestOutcome, RawId),
    /// Nobody can decide it.
    Undecidable(Box<ServerRequest>),
}

fn confirm(mailbox: Option<&Mailbox>, request: &ServerRequest) {
    if let Some(mailbox) = mailbox {
        mailbox.confirm(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::permissions::ReportedPermissions;
    use crate::turn::approvals::UNDELIVERED_TIMEOUT;
    use crate::turn::mailbox::MailboxEvent;
    use crate::turn::mailbox::tests::frame;
    use bridge_codex::wire::notification::EffectiveSettings;
    use bridge_codex::wire::values::GrantScope;
    use bridge_core::port::ApprovalRequest;
    use bridge_core::value::{RequestDecision, RequestKind, Timestamp};
    use serde_json::{Value, json};

    fn thread() -> ThreadId {
        ThreadId::new("t")
    }

    fn request(id: i64, method: &str, more: Value) -> ServerRequest {
        let mut params = json!({"threadId": "t", "turnId": "u", "itemId": "i"});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        ServerRequest::parse(RawId::Integer(id), method.to_owned(), params)
    }

    fn command(id: i64) -> ServerRequest {
        let params = json!({"command": "ls", "cwd": "/w"});
        request(id, "item/commandExecution/requestApproval", params)
    }

    fn resolved(id: i64) -> Notification {
        let params = json!({"threadId": "t", "requestId": id});
        Notification::parse("serverRequest/resolved", &params)
    }

    fn running(boxes: &TurnRouter) -> Arc<Mailbox> {
        let fold = TurnFold::new(thread(), Some(TurnId::new("u")), None);
        boxes.open(fold, thread(), frame())
    }

    async fn event(mailbox: &Mailbox) -> TurnEvent {
        match mailbox.next().await {
            MailboxEvent::Turn(event) => *event,
            MailboxEvent::ExcessPermissions { turn_id } => panic!("{turn_id:?}"),
        }
    }

    async fn asked(mailbox: &Mailbox) -> ApprovalRequest {
        match event(mailbox).await {
            TurnEvent::Request(asked) => asked,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn undelivered_request_expires_without_follower() {
        let boxes = TurnRouter::default();
        let now = Instant::now();
        boxes.ask(command(0), now).unwrap();
        assert_eq!(boxes.next_expiry(), Some(now + UNDELIVERED_TIMEOUT));
        assert_eq!(boxes.expire(now), []);
        let mailbox = running(&boxes);
        let name = asked(&mailbox).await.key;
        assert!(boxes.open_request(&name).is_some());
        assert_eq!(boxes.expire(now + UNDELIVERED_TIMEOUT), []);

        boxes.close(&thread(), &mailbox);
        boxes.ask(command(1), now).unwrap();
        let name = RequestKey {
            rpc_id: "1".to_owned(),
            ..name
        };
        // Somebody may decide it meanwhile.
        assert!(boxes.open_request(&name).is_some());
        assert_eq!(boxes.expire(now + UNDELIVERED_TIMEOUT), [command(1)]);
        assert_eq!(boxes.next_expiry(), None);
        assert_eq!(boxes.open_request(&name), None);
        let next = boxes.open_early(thread(), frame());
        next.bind(&thread(), TurnId::new("u"));
        let reported = [event(&next).await, event(&next).await];
        assert!(
            reported.contains(&TurnEvent::Resolved(name)),
            "{reported:?}"
        );
    }

    #[tokio::test]
    async fn excess_approval_requests_are_resolved() {
        let boxes = TurnRouter::default();
        let mailbox = running(&boxes);
        let mut id = 0;
        while boxes.ask(command(id), Instant::now()).is_ok() {
            asked(&mailbox).await;
            id += 1;
        }
        let reported = asked(&mailbox).await;
        assert_eq!(event(&mailbox).await, TurnEvent::Resolved(reported.key));
    }

    #[tokio::test]
    async fn early_requests_are_delivered_after_bind() {
        let boxes = TurnRouter::default();
        let mailbox = boxes.open_early(thread(), frame());
        let change = request(2, "item/fileChange/requestApproval", json!({}));
        boxes.ask(change, Instant::now()).unwrap();
        boxes.ask(command(3), Instant::now()).unwrap();
        boxes.deliver(&resolved(3));
        let item = json!({"type": "fileChange", "id": "i", "status": "inProgress",
            "changes": [{"path": "/w/a", "kind": {"type": "add"}, "diff": "hello\n"}]});
        let turn = json!({"id": "u", "status": "inProgress", "items": [item], "itemsView": "full"});
        mailbox.recall(&[serde_json::from_value(turn).unwrap()]);
        mailbox.bind(&thread(), TurnId::new("u"));
        let asked = asked(&mailbox).await;
        assert_eq!(
            (asked.kind, asked.key.rpc_id.as_str()),
            (RequestKind::FileChange, "2")
        );
        assert!(asked.shown.contains("hello"), "{}", asked.shown);
        assert_eq!(asked.effect.paths, ["/w/a"]);
        boxes.deliver(&resolved(2));
        assert_eq!(
            event(&mailbox).await,
            TurnEvent::Resolved(asked.key.clone())
        );
        assert_eq!(boxes.open_request(&asked.key), None);
    }

    #[tokio::test]
    async fn unbound_mailbox_leaves_requests_to_next() {
        let boxes = TurnRouter::default();
        let early = boxes.open_early(thread(), frame());
        boxes.ask(command(0), Instant::now()).unwrap();
        boxes.close(&thread(), &early);
        let next = running(&boxes);
        assert_eq!(asked(&next).await.key.rpc_id, "0");
    }

    #[tokio::test]
    async fn new_follower_gets_open_requests_once() {
        let boxes = TurnRouter::default();
        let first = running(&boxes);
        boxes.ask(command(0), Instant::now()).unwrap();
        let before = asked(&first).await;
        boxes.close(&thread(), &first);
        let second = boxes.open_early(thread(), frame());
        // Codex asks again as well.
        boxes.ask(command(0), Instant::now()).unwrap();
        second.bind(&thread(), TurnId::new("u"));
        assert_eq!(asked(&second).await, before);
        boxes.ask(command(1), Instant::now()).unwrap();
        assert_eq!(asked(&second).await.key.rpc_id, "1");
    }

    #[tokio::test]
    async fn request_can_be_taken_once() {
        let boxes = TurnRouter::default();
        let mailbox = running(&boxes);
        boxes.ask(command(0), Instant::now()).unwrap();
        let name = asked(&mailbox).await.key;
        let mut other = name.clone();
        other.rpc_id = "\"0\"".to_owned();
        assert_eq!(boxes.open_request(&other), None);
        let request = boxes.open_request(&name).unwrap();
        assert!(boxes.take(&request.id) && !boxes.take(&request.id));
        // Our own answer is no news.
        boxes.deliver(&resolved(0));
        boxes.ask(command(1), Instant::now()).unwrap();
        assert_eq!(asked(&mailbox).await.key.rpc_id, "1");
    }

    fn yes() -> RequestOutcome {
        RequestOutcome::Result(json!({"decision": "accept"}))
    }

    #[tokio::test]
    async fn f5_an_answer_is_kept_until_confirmed() {
        let (boxes, now) = (TurnRouter::default(), Instant::now());
        let mailbox = running(&boxes);
        boxes.ask(command(0), now).unwrap();
        let name = asked(&mailbox).await.key;
        assert_eq!(boxes.next_expiry(), None);
        assert!(boxes.answer(&RawId::Integer(0), yes(), now));
        assert!(!boxes.answer(&RawId::Integer(0), yes(), now));
        let verdict = |decision| RequestVerdict::own(decision, "test", Timestamp(0));
        let says = |decision| boxes.is_answered_so(&name, &verdict(decision));
        assert!(says(RequestDecision::Accept) && !says(RequestDecision::Decline));
        assert_eq!(boxes.open_request(&name), None);
        let again = RequestRefused::Answered(yes(), RawId::Integer(0));
        assert_eq!(boxes.ask(command(0), now), Err(again));
        assert!(boxes.next_expiry().is_some());
        boxes.deliver(&resolved(0));
        assert_eq!(event(&mailbox).await, TurnEvent::Confirmed(name.clone()));
        assert!(!says(RequestDecision::Accept));
        assert_eq!(boxes.next_expiry(), None);
    }

    #[tokio::test]
    async fn f5_answer_is_confirmed_before_turn_end() {
        let boxes = TurnRouter::default();
        let mailbox = running(&boxes);
        boxes.ask(command(0), Instant::now()).unwrap();
        let name = asked(&mailbox).await.key;
        assert!(boxes.answer(&RawId::Integer(0), yes(), Instant::now()));
        let turn =
            json!({"id": "u", "status": "interrupted", "items": [], "itemsView": "notLoaded"});
        let done = json!({"threadId": "t", "turn": turn});
        boxes.deliver(&Notification::parse("turn/completed", &done));
        assert_eq!(event(&mailbox).await, TurnEvent::Confirmed(name));
        assert!(matches!(event(&mailbox).await, TurnEvent::Ended(_)));
    }

    #[tokio::test]
    async fn undecidable_requests_are_returned_and_resolved() {
        let boxes = TurnRouter::default();
        let mailbox = running(&boxes);
        for (id, method) in [(0, "brand/new"), (1, "item/tool/call")] {
            let request = request(
                id,
                method,
                json!({"callId": "c", "tool": "x", "arguments": {}}),
            );
            assert!(boxes.ask(request, Instant::now()).is_err(), "{method}");
            let reported = asked(&mailbox).await;
            assert_eq!(reported.method, method);
            assert_eq!(
                event(&mailbox).await,
                TurnEvent::Resolved(reported.key.clone())
            );
            assert_eq!(boxes.open_request(&reported.key), None);
        }
        let method = "attestation/generate".to_owned();
        let homeless = ServerRequest::parse(RawId::Integer(2), method, json!({}));
        assert!(boxes.ask(homeless, Instant::now()).is_err());
    }

    /// Codex says nothing when it lets go of one, so it is open until it is answered.
    #[tokio::test]
    async fn offered_tool_call_stays_open_until_answered() {
        let boxes = TurnRouter::default();
        let mailbox = running(&boxes);
        let params =
            json!({"callId": "c", "tool": "ask_agent", "arguments": {"agent": "b", "text": "hi"}});
        let call = request(3, "item/tool/call", params);
        boxes.ask(call.clone(), Instant::now()).unwrap();
        let reported = asked(&mailbox).await;
        assert_eq!(reported.kind, RequestKind::ToolCall);
        let found = boxes.open_request(&reported.key).unwrap();
        let returned = json!({"text": "hello", "success": true});
        assert!(
            found
                .accept_with(Some(&returned), &GrantScope::Turn)
                .is_ok()
        );
        assert!(
            found
                .accept_with(Some(&json!("hello")), &GrantScope::Turn)
                .is_err()
        );
        assert!(boxes.take(&call.id) && boxes.open_request(&reported.key).is_none());
    }

    /// After a restart a turn may be found that runs with what somebody gave its thread meanwhile.
    #[tokio::test]
    async fn recovered_turn_with_excess_permissions_stops() {
        let boxes = TurnRouter::default();
        let mailbox = boxes.open_early(thread(), frame());
        let found = json!({"sandboxPolicy": {"type": "readOnly", "networkAccess": true},
            "approvalPolicy": "on-request", "approvalsReviewer": "user",
            "activePermissionProfile": null});
        let found: EffectiveSettings = serde_json::from_value(found).unwrap();
        mailbox.compare(ReportedPermissions::from(&found));
        mailbox.bind(&thread(), TurnId::new("u"));
        let MailboxEvent::ExcessPermissions { turn_id } = mailbox.next().await else {
            panic!("nothing was reported");
        };
        assert_eq!(turn_id, TurnId::new("u"));
    }

    #[tokio::test]
    async fn excess_permissions_are_reported_as_failure() {
        let boxes = TurnRouter::default();
        let mailbox = running(&boxes);
        let update = |sandbox: &str| {
            let settings = json!({"sandboxPolicy": {"type": sandbox}, "approvalPolicy": "on-request",
                                  "approvalsReviewer": "user", "activePermissionProfile": null});
            let params = json!({"threadId": "t", "threadSettings": settings});
            Notification::parse("thread/settings/updated", &params)
        };
        boxes.deliver(&update("readOnly"));
        for _ in 0..2 {
            boxes.deliver(&update("dangerFullAccess"));
        }
        let MailboxEvent::ExcessPermissions { turn_id } = mailbox.next().await else {
            panic!("nothing was reported");
        };
        assert_eq!(turn_id, TurnId::new("u"));
        let turn =
            json!({"id": "u", "status": "interrupted", "items": [], "itemsView": "notLoaded"});
        let done = json!({"threadId": "t", "turn": turn});
        boxes.deliver(&Notification::parse("turn/completed", &done));
        let TurnEvent::Ended(end) = event(&mailbox).await else {
            panic!("no end");
        };
        let failure = end.failure.unwrap();
        assert_eq!(failure.class, bridge_core::value::Class::Config);
        assert!(failure.reason.contains("danger-full-access"), "{failure:?}");
    }
}
