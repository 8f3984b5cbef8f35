//! All mailboxes of one connection, and who hears a question of Codex.
//!
//! A question for a thread that nobody follows waits a while for a follower: after a broken connection Codex asks again
//! as soon as the thread is loaded, which may be before it is known which of its turns is ours.

use crate::account::Account;
use crate::host::wall_now;
use crate::mailbox::{Frame, Mailbox};
use crate::questions::{self, Questions};
use crate::reply::{Reply, reply};
use crate::unconfirmed::Overdue;
use bridge_codex::rpc::RawId;
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::{Notification, Outcome, ServerRequest};
use bridge_core::port::{RequestKey, TurnEvent};
use bridge_core::value::{RequestVerdict, ThreadId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// All mailboxes of one connection, by thread. Where both locks are held, `by_thread` is the outer one.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    by_thread: Mutex<HashMap<ThreadId, Arc<Mailbox>>>,
    questions: Mutex<Questions>,
    account: Arc<Account>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailboxes {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self {
            account,
            ..Self::default()
        }
    }

    /// Opens a mailbox for a turn that is about to start on an idle thread.
    pub(crate) fn open(&self, fold: TurnFold, thread: ThreadId, frame: Frame) -> Arc<Mailbox> {
        self.insert(Mailbox::folding(fold, frame), thread)
    }

    /// Opens a mailbox for a thread that is about to be looked at; nothing that comes meanwhile is missed.
    /// What an earlier follower was asked is told again, whether or not Codex does.
    pub(crate) fn open_early(&self, thread: ThreadId, frame: Frame) -> Arc<Mailbox> {
        let mailbox = Mailbox::early(frame);
        for request in locked(&self.questions).open_on(&thread) {
            mailbox.ask(&request);
        }
        self.insert(mailbox, thread)
    }

    fn insert(&self, mailbox: Mailbox, thread: ThreadId) -> Arc<Mailbox> {
        let mailbox = Arc::new(mailbox);
        let mut boxes = locked(&self.by_thread);
        let mut questions = locked(&self.questions);
        for request in questions.take_unheard(&thread) {
            mailbox.ask(&request);
            questions.heard(request);
        }
        for request in questions.take_settled(&thread) {
            mailbox.settled_before(&request);
        }
        boxes.insert(thread, Arc::clone(&mailbox));
        mailbox
    }

    /// Closes a mailbox, unless another one took its place.
    pub(crate) fn close(&self, thread: &ThreadId, mailbox: &Arc<Mailbox>) {
        let mut boxes = locked(&self.by_thread);
        let present = boxes.get(thread);
        if present.is_some_and(|present| Arc::ptr_eq(present, mailbox)) {
            boxes.remove(thread);
            let mut questions = locked(&self.questions);
            for request in mailbox.take_untold() {
                questions.unheard(request, Instant::now());
            }
        }
    }

    /// Whether a turn of this thread is followed or looked at.
    pub(crate) fn has(&self, thread: &ThreadId) -> bool {
        locked(&self.by_thread).contains_key(thread)
    }

    /// Whether nothing is followed or looked at.
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.by_thread).is_empty()
    }

    fn of(&self, thread: Option<&ThreadId>) -> Option<Arc<Mailbox>> {
        locked(&self.by_thread).get(thread?).cloned()
    }

    pub(crate) fn deliver(&self, notification: &Notification) {
        let mailbox = self.of(notification.thread_id());
        let settled = locked(&self.questions).settle(notification);
        for request in settled.confirmed {
            confirm(mailbox.as_deref(), &request);
        }
        match (mailbox, settled.unanswered) {
            (None, None) => {}
            (None, Some(request)) => locked(&self.questions).settled(request),
            (Some(mailbox), unanswered) => {
                if let Some(request) = unanswered {
                    mailbox.resolve(&request);
                }
                let resets_at = self.account.resets_at(wall_now());
                mailbox.deliver(notification, resets_at);
            }
        }
    }

    /// Hands a question to the follower of its thread, or keeps it for one; says no when nobody will ever hear it or
    /// nobody can decide it. One that was answered is answered the same again, and nobody hears of it.
    pub(crate) fn ask(&self, request: ServerRequest, now: Instant) -> Result<(), Unasked> {
        let boxes = locked(&self.by_thread);
        let mailbox = request.thread_id().and_then(|thread| boxes.get(thread));
        let mailbox = mailbox.filter(|mailbox| !mailbox.is_over());
        let mut questions = locked(&self.questions);
        if let Some(outcome) = questions.answered.asked_again(&request) {
            return Err(Unasked::Answered(outcome, request.id));
        }
        if questions.is_full() || !questions::is_decidable(&request) {
            if let Some(mailbox) = mailbox {
                mailbox.tell_declined(&request);
            }
            return Err(Unasked::Hopeless(Box::new(request)));
        }
        if request.thread_id().is_none() {
            return Err(Unasked::Hopeless(Box::new(request)));
        }
        match mailbox {
            Some(mailbox) => {
                mailbox.ask(&request);
                questions.heard(request);
            }
            None => {
                tracing::warn!(method = %request.method, "codex asks, and nobody follows that turn yet");
                questions.unheard(request, now);
            }
        }
        Ok(())
    }

    /// Questions that waited too long for a follower.
    pub(crate) fn expire(&self, now: Instant) -> Vec<ServerRequest> {
        locked(&self.questions).expire(now)
    }

    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        locked(&self.questions).next_expiry()
    }

    /// A question that is still asked.
    pub(crate) fn question(&self, to: &RequestKey) -> Option<ServerRequest> {
        locked(&self.questions).find(to).cloned()
    }

    /// Whoever takes a question out answers it; false when somebody else did, or Codex settled it.
    pub(crate) fn take(&self, id: &RawId) -> bool {
        locked(&self.questions).close(id).is_some()
    }

    /// Notes the answer that is about to be given; false when somebody else gave one, or Codex settled it.
    pub(crate) fn answer(&self, id: &RawId, outcome: Outcome, now: Instant) -> bool {
        locked(&self.questions).answer(id, outcome, now)
    }

    /// Notes an answer to a question that was taken out before.
    pub(crate) fn answered(&self, request: ServerRequest, outcome: Outcome, now: Instant) {
        let mut questions = locked(&self.questions);
        questions.answered.insert(request, outcome, now);
    }

    /// Whether it was answered just so, and Codex has not confirmed that.
    pub(crate) fn says_already(&self, to: &RequestKey, verdict: &RequestVerdict) -> bool {
        let questions = locked(&self.questions);
        let unconfirmed = questions.unconfirmed(to);
        unconfirmed.is_some_and(|(request, said)| {
            matches!(reply(request, verdict), Ok(Reply::Say(same)) if same == *said)
        })
    }

    /// What is to be done about answers that Codex does not confirm.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<Overdue> {
        locked(&self.questions).answered.expire(now)
    }

    /// Codex resumed the thread of an answer that it does not confirm.
    pub(crate) fn resumed(&self, id: &RawId) {
        locked(&self.questions).answered.resumed(id);
    }

    /// Codex refused to.
    pub(crate) fn not_resumed(&self, id: &RawId) {
        locked(&self.questions).answered.not_resumed(id);
    }

    /// Codex has the answer to this question.
    pub(crate) fn confirm(&self, request: &ServerRequest) {
        confirm(self.of(request.thread_id()).as_deref(), request);
    }

    /// The connection is gone: every follower hears it.
    pub(crate) fn lose_all(&self, why: &str) {
        for (_, mailbox) in locked(&self.by_thread).drain() {
            mailbox.push(TurnEvent::Lost {
                why: why.to_owned(),
            });
        }
    }
}

/// Why a question is not asked.
#[derive(Debug, PartialEq)]
pub(crate) enum Unasked {
    /// It was answered, and this is the answer.
    Answered(Outcome, RawId),
    /// Nobody can decide it.
    Hopeless(Box<ServerRequest>),
}

fn confirm(mailbox: Option<&Mailbox>, request: &ServerRequest) {
    if let Some(mailbox) = mailbox {
        mailbox.confirm(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::News;
    use crate::mailbox::tests::frame;
    use crate::power::Reported;
    use crate::questions::UNHEARD_PATIENCE;
    use bridge_codex::wire::notification::EffectiveSettings;
    use bridge_codex::wire::values::GrantScope;
    use bridge_core::port::ApprovalRequest;
    use bridge_core::value::TurnId;
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

    fn running(boxes: &Mailboxes) -> Arc<Mailbox> {
        let fold = TurnFold::new(thread(), Some(TurnId::new("u")), None);
        boxes.open(fold, thread(), frame())
    }

    async fn event(mailbox: &Mailbox) -> TurnEvent {
        match mailbox.next().await {
            News::Event(event) => *event,
            News::Overpowered { turn_id } => panic!("{turn_id:?}"),
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
        let boxes = Mailboxes::default();
        let now = Instant::now();
        boxes.ask(command(0), now).unwrap();
        assert_eq!(boxes.next_expiry(), Some(now + UNHEARD_PATIENCE));
        assert_eq!(boxes.expire(now), []);
        let mailbox = running(&boxes);
        let name = asked(&mailbox).await.key;
        assert!(boxes.question(&name).is_some());
        assert_eq!(boxes.expire(now + UNHEARD_PATIENCE), []);

        boxes.close(&thread(), &mailbox);
        boxes.ask(command(1), now).unwrap();
        let name = RequestKey {
            rpc_id: "1".to_owned(),
            ..name
        };
        // Somebody may decide it meanwhile.
        assert!(boxes.question(&name).is_some());
        assert_eq!(boxes.expire(now + UNHEARD_PATIENCE), [command(1)]);
        assert_eq!(boxes.next_expiry(), None);
        assert_eq!(boxes.question(&name), None);
        let next = boxes.open_early(thread(), frame());
        next.bind(&thread(), TurnId::new("u"));
        let told = [event(&next).await, event(&next).await];
        assert!(told.contains(&TurnEvent::Resolved(name)), "{told:?}");
    }

    #[tokio::test]
    async fn excess_approval_requests_are_resolved() {
        let boxes = Mailboxes::default();
        let mailbox = running(&boxes);
        let mut id = 0;
        while boxes.ask(command(id), Instant::now()).is_ok() {
            asked(&mailbox).await;
            id += 1;
        }
        let told = asked(&mailbox).await;
        assert_eq!(event(&mailbox).await, TurnEvent::Resolved(told.key));
    }

    #[tokio::test]
    async fn early_requests_are_delivered_after_bind() {
        let boxes = Mailboxes::default();
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
        assert_eq!(boxes.question(&asked.key), None);
    }

    #[tokio::test]
    async fn unbound_mailbox_leaves_requests_to_next() {
        let boxes = Mailboxes::default();
        let early = boxes.open_early(thread(), frame());
        boxes.ask(command(0), Instant::now()).unwrap();
        boxes.close(&thread(), &early);
        let next = running(&boxes);
        assert_eq!(asked(&next).await.key.rpc_id, "0");
    }

    #[tokio::test]
    async fn new_follower_gets_open_requests_once() {
        let boxes = Mailboxes::default();
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
        let boxes = Mailboxes::default();
        let mailbox = running(&boxes);
        boxes.ask(command(0), Instant::now()).unwrap();
        let name = asked(&mailbox).await.key;
        let mut other = name.clone();
        other.rpc_id = "\"0\"".to_owned();
        assert_eq!(boxes.question(&other), None);
        let request = boxes.question(&name).unwrap();
        assert!(boxes.take(&request.id) && !boxes.take(&request.id));
        // Our own answer is no news.
        boxes.deliver(&resolved(0));
        boxes.ask(command(1), Instant::now()).unwrap();
        assert_eq!(asked(&mailbox).await.key.rpc_id, "1");
    }

    fn yes() -> Outcome {
        Outcome::Result(json!({"decision": "accept"}))
    }

    #[tokio::test]
    async fn f5_an_answer_is_kept_until_confirmed() {
        let (boxes, now) = (Mailboxes::default(), Instant::now());
        let mailbox = running(&boxes);
        boxes.ask(command(0), now).unwrap();
        let name = asked(&mailbox).await.key;
        assert_eq!(boxes.next_expiry(), None);
        assert!(boxes.answer(&RawId::Integer(0), yes(), now));
        assert!(!boxes.answer(&RawId::Integer(0), yes(), now));
        let verdict = |decision| RequestVerdict::own(decision, "test", Timestamp(0));
        let says = |decision| boxes.says_already(&name, &verdict(decision));
        assert!(says(RequestDecision::Accept) && !says(RequestDecision::Decline));
        assert_eq!(boxes.question(&name), None);
        let again = Unasked::Answered(yes(), RawId::Integer(0));
        assert_eq!(boxes.ask(command(0), now), Err(again));
        assert!(boxes.next_expiry().is_some());
        boxes.deliver(&resolved(0));
        assert_eq!(event(&mailbox).await, TurnEvent::Confirmed(name.clone()));
        assert!(!says(RequestDecision::Accept));
        assert_eq!(boxes.next_expiry(), None);
    }

    #[tokio::test]
    async fn f5_answer_is_confirmed_before_turn_end() {
        let boxes = Mailboxes::default();
        let mailbox = running(&boxes);
        boxes.ask(command(0), Instant::now()).unwrap();
        let name = asked(&mailbox).await.key;
        assert!(boxes.answer(&RawId::Integer(0), yes(), Instant::now()));
        let turn = json!({"id": "u", "status": "completed", "items": [], "itemsView": "notLoaded"});
        let done = json!({"threadId": "t", "turn": turn});
        boxes.deliver(&Notification::parse("turn/completed", &done));
        assert_eq!(event(&mailbox).await, TurnEvent::Confirmed(name));
        assert!(matches!(event(&mailbox).await, TurnEvent::Ended(_)));
    }

    #[tokio::test]
    async fn undecidable_requests_are_returned_and_resolved() {
        let boxes = Mailboxes::default();
        let mailbox = running(&boxes);
        for (id, method) in [(0, "brand/new"), (1, "item/tool/call")] {
            let request = request(
                id,
                method,
                json!({"callId": "c", "tool": "x", "arguments": {}}),
            );
            assert!(boxes.ask(request, Instant::now()).is_err(), "{method}");
            let told = asked(&mailbox).await;
            assert_eq!(told.method, method);
            assert_eq!(event(&mailbox).await, TurnEvent::Resolved(told.key.clone()));
            assert_eq!(boxes.question(&told.key), None);
        }
        let method = "attestation/generate".to_owned();
        let homeless = ServerRequest::parse(RawId::Integer(2), method, json!({}));
        assert!(boxes.ask(homeless, Instant::now()).is_err());
    }

    /// Codex says nothing when it lets go of one, so it is open until it is answered.
    #[tokio::test]
    async fn offered_tool_call_stays_open_until_answered() {
        let boxes = Mailboxes::default();
        let mailbox = running(&boxes);
        let params =
            json!({"callId": "c", "tool": "ask_agent", "arguments": {"agent": "b", "text": "hi"}});
        let call = request(3, "item/tool/call", params);
        boxes.ask(call.clone(), Instant::now()).unwrap();
        let told = asked(&mailbox).await;
        assert_eq!(told.kind, RequestKind::ToolCall);
        let found = boxes.question(&told.key).unwrap();
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
        assert!(boxes.take(&call.id) && boxes.question(&told.key).is_none());
    }

    /// After a restart a turn may be found that runs with what somebody gave its thread meanwhile.
    #[tokio::test]
    async fn recovered_turn_with_excess_permissions_stops() {
        let boxes = Mailboxes::default();
        let mailbox = boxes.open_early(thread(), frame());
        let found = json!({"sandboxPolicy": {"type": "readOnly", "networkAccess": true},
            "approvalPolicy": "on-request", "approvalsReviewer": "user",
            "activePermissionProfile": null});
        let found: EffectiveSettings = serde_json::from_value(found).unwrap();
        mailbox.compare(Reported::from(&found));
        mailbox.bind(&thread(), TurnId::new("u"));
        let News::Overpowered { turn_id } = mailbox.next().await else {
            panic!("nobody was told");
        };
        assert_eq!(turn_id, TurnId::new("u"));
    }

    #[tokio::test]
    async fn excess_permissions_are_reported_as_failure() {
        let boxes = Mailboxes::default();
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
        let News::Overpowered { turn_id } = mailbox.next().await else {
            panic!("nobody was told");
        };
        assert_eq!(turn_id, TurnId::new("u"));
        let turn =
            json!({"id": "u", "status": "interrupted", "items": [], "itemsView": "notLoaded"});
        let done = json!({"threadId": "t", "turn": turn});
        boxes.deliver(&Notification::parse("turn/completed", &done));
        let TurnEvent::Ended(end) = event(&mailbox).await else {
            panic!("the end was not told");
        };
        let failure = end.failure.unwrap();
        assert_eq!(failure.class, bridge_core::value::Class::Config);
        assert!(failure.reason.contains("danger-full-access"), "{failure:?}");
    }
}
