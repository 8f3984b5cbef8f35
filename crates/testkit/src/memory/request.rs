//! Requests in memory: what Codex asked, by message, by Codex's own name, by code, by time.
//!
//! Few of them live at a time, so lists are looked through.

use super::MemoryRows;
use super::apply::{found, guard};
use bridge_core::port::{RequestsOf, RowsError, Standing};
use bridge_core::value::{
    ConversationId, MessageId, Request, RequestId, RequestState, RequestStateName, Timestamp,
};

pub(super) fn standing(request: &Request) -> Standing {
    Standing {
        request_id: request.request_id.clone(),
        attempt: request.attempt,
        incarnation: request.incarnation.clone(),
        rpc_id: request.rpc_id.clone(),
        item_id: request.item_id.clone(),
        state: request.state.clone(),
        created_at: request.created_at,
        resends: request.resends,
    }
}

impl MemoryRows {
    pub(super) fn requests_of(&self, message_id: &MessageId) -> impl Iterator<Item = &Request> {
        let all = (message_id.clone(), 0)..=(message_id.clone(), u64::MAX);
        self.asked
            .range(all)
            .filter_map(|(_, id)| self.requests.get(id))
    }

    /// All of them in the order they were written.
    fn requests_in_order(&self) -> Vec<&Request> {
        let mut all: Vec<_> = self.asked.iter().map(|((_, row), id)| (*row, id)).collect();
        all.sort_unstable_by_key(|(row, _)| *row);
        all.into_iter()
            .filter_map(|(_, id)| self.requests.get(id))
            .collect()
    }

    pub(super) fn is_asked(&self, message_id: &MessageId) -> bool {
        self.requests_of(message_id)
            .any(|request| request.state == RequestState::Open)
    }

    pub(super) fn with_code(&self, id: &ConversationId, code: &str) -> Vec<Request> {
        let of_conversation = |request: &Request| {
            let message = self.messages.get(&request.message_id);
            message.is_some_and(|message| message.conversation_id == *id)
        };
        self.requests_in_order()
            .into_iter()
            .filter(|request| request.state.waits() && of_conversation(request))
            .filter(|request| request.request_id.as_str().starts_with(code))
            .cloned()
            .collect()
    }

    pub(super) fn newest(
        &self,
        waiting: bool,
        before: Option<&RequestId>,
        limit: usize,
    ) -> Vec<Request> {
        let mut all = self.requests_in_order();
        if let Some(before) = before {
            let place = all.iter().position(|request| request.request_id == *before);
            all.truncate(place.unwrap_or(0));
        }
        all.into_iter()
            .rev()
            .filter(|request| !waiting || request.state.waits())
            .take(limit)
            .cloned()
            .collect()
    }

    fn by_deadline(&self) -> Vec<&Request> {
        let all = self.requests.iter().map(|(_, request)| request);
        let mut all: Vec<_> = all.filter(|request| request.state.lives()).collect();
        all.sort_by_key(|request| (request.deadline, &request.request_id));
        all
    }

    fn unreminded(&self) -> Vec<&Request> {
        let all = self.requests.iter().map(|(_, request)| request);
        let open = |request: &&Request| request.state == RequestState::Open && !request.reminded;
        let mut all: Vec<_> = all.filter(open).collect();
        all.sort_by_key(|request| (request.created_at, &request.request_id));
        all
    }

    pub(super) fn overdue_questions(&self, now: Timestamp, limit: usize) -> Vec<Request> {
        let all = self.by_deadline().into_iter();
        let overdue = all.filter(|request| request.deadline <= now);
        overdue.take(limit).cloned().collect()
    }

    pub(super) fn deadline_after(&self, now: Timestamp) -> Option<Timestamp> {
        let all = self.by_deadline().into_iter();
        all.map(|request| request.deadline).find(|at| *at > now)
    }

    pub(super) fn unreminded_by(&self, asked_by: Timestamp, limit: usize) -> Vec<Request> {
        let all = self.unreminded().into_iter();
        let old = all.filter(|request| request.created_at <= asked_by);
        old.take(limit).cloned().collect()
    }

    pub(super) fn unreminded_after(&self, asked_by: Timestamp) -> Option<Timestamp> {
        let all = self.unreminded().into_iter();
        all.map(|request| request.created_at)
            .find(|at| *at > asked_by)
    }

    pub(super) fn new_request(&mut self, request: &Request) -> Result<(), RowsError> {
        let id = &request.request_id;
        let message_id = &request.message_id;
        guard(
            !self.requests.contains(id) && self.messages.contains(message_id),
            || format!("new request {id}"),
        )?;
        let last = self.asked.iter().map(|((_, row), _)| *row).max();
        let row = last.map_or(1, |last| last + 1);
        self.asked.put((message_id.clone(), row), id.clone());
        self.requests.put(id.clone(), request.clone());
        self.touch_task(message_id, request.created_at);
        Ok(())
    }

    pub(super) fn move_request(
        &mut self,
        id: &RequestId,
        from: RequestStateName,
        to: &RequestState,
    ) -> Result<(), RowsError> {
        let known = self
            .requests
            .get(id)
            .filter(|request| request.state.name() == from);
        let request = found(known, || {
            format!("request {id}, which must be {}", from.as_str())
        })?;
        let request = Request {
            state: to.clone(),
            ..request.clone()
        };
        self.requests.put(id.clone(), request);
        if let Some(verdict) = to.verdict() {
            self.touch_task_by_request(id, verdict.at);
        }
        Ok(())
    }

    pub(super) fn remind(&mut self, id: &RequestId) -> Result<(), RowsError> {
        let known = self
            .requests
            .get(id)
            .filter(|request| request.state == RequestState::Open);
        let request = found(known, || format!("reminder of request {id}"))?;
        let request = Request {
            reminded: true,
            ..request.clone()
        };
        self.requests.put(id.clone(), request);
        Ok(())
    }

    pub(super) fn tell_again(&mut self, id: &RequestId) -> Result<(), RowsError> {
        let known = self
            .requests
            .get(id)
            .filter(|request| matches!(request.state, RequestState::Decided(_)));
        let request = found(known, || format!("request {id}, which must be decided"))?;
        let request = Request {
            resends: request.resends + 1,
            ..request.clone()
        };
        self.requests.put(id.clone(), request);
        Ok(())
    }

    pub(super) fn orphan(&mut self, of: &RequestsOf) {
        let open = |request: &Request| {
            request.state == RequestState::Open
                && match of {
                    RequestsOf::Message(id) => request.message_id == *id,
                    RequestsOf::Incarnation(id) => request.incarnation == *id,
                }
        };
        self.move_all(open, &RequestState::Orphaned);
    }

    pub(super) fn withdraw(&mut self, message_id: &MessageId, why: &str) {
        let lives = |request: &Request| request.message_id == *message_id && request.state.lives();
        let why = why.to_owned();
        self.move_all(lives, &RequestState::Withdrawn { why });
    }

    fn move_all(&mut self, which: impl Fn(&Request) -> bool, to: &RequestState) {
        let all: Vec<Request> = self
            .requests
            .iter()
            .map(|(_, request)| request)
            .filter(|request| which(request))
            .cloned()
            .collect();
        for request in all {
            let id = request.request_id.clone();
            let state = to.clone();
            self.requests.put(id, Request { state, ..request });
        }
    }
}
