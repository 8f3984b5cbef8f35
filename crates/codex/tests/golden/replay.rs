//! One transcript on its way through the crate.
//!
//! What we sent is checked against what our builders write; what Codex sent is folded. What must
//! come out is stated in `turns.rs`.

use std::collections::BTreeMap;

use bridge_codex::link::{Event, Link, LinkOptions};
use bridge_codex::turn::{TurnFold, TurnNews, TurnOutcome};
use bridge_codex::version::{self, PINNED};
use bridge_codex::wire::account::AccountReadParams;
use bridge_codex::wire::method::{
    AccountRead, Initialize, ThreadStart, TurnInterrupt, TurnStart, TurnSteer,
};
use bridge_codex::wire::thread::ThreadOpened;
use bridge_codex::wire::values::TurnStatus;
use bridge_codex::wire::{Outcome, ServerRequest};
use bridge_core::value::{ClientId, ThreadId, TurnId};
use serde_json::Value;

use crate::{lines, read};

/// One transcript on its way through the crate.
pub(crate) struct Replay {
    pub(crate) link: Link,
    sent: BTreeMap<i64, Value>,
    pub(crate) asked: Option<ServerRequest>,
    pub(crate) opened: Option<ThreadOpened>,
    folds: Vec<TurnFold>,
    pub(crate) outcomes: Vec<TurnOutcome>,
    pub(crate) news: Vec<String>,
}

impl Replay {
    pub(crate) fn run(name: &str) -> Self {
        let mut replay = Self {
            link: Link::new(LinkOptions::default()),
            sent: BTreeMap::new(),
            asked: None,
            opened: None,
            folds: Vec::new(),
            outcomes: Vec::new(),
            news: Vec::new(),
        };
        for line in lines(name) {
            match line["dir"].as_str() {
                Some(">") => replay.outgoing(&line["msg"]),
                Some("<") => replay.incoming(&line["msg"]),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            replay.link.in_flight(),
            0,
            "{name}: every request was answered"
        );
        assert_eq!(replay.link.counters().malformed_lines, 0);
        assert_eq!(replay.link.counters().malformed_notifications, 0);
        replay
    }

    fn outgoing(&mut self, message: &Value) {
        if message.get("method").is_none() {
            return self.answered(message);
        }
        let Some(id) = message["id"].as_i64() else {
            return;
        };
        let params = AccountReadParams::default();
        let (_, text) = self.link.request::<AccountRead>(&params, 0).unwrap();
        assert!(
            text.starts_with(&format!("{{\"id\":{id},")),
            "ids run in step: {text}"
        );
        self.sent.insert(id, message.clone());
        if message["method"] == "thread/queue/add" {
            let client_id = message["params"]["clientUserMessageId"].as_str().unwrap();
            self.fold(message, None, Some(ClientId::new(client_id)));
        }
    }

    /// The recorded answer must be the one that our builder makes for that decision.
    fn answered(&self, message: &Value) {
        let asked = self.asked.as_ref().expect("an answer follows a request");
        let ours: Outcome = match message["result"]["decision"].as_str() {
            Some("accept") => asked.accept().unwrap(),
            Some("decline") => asked.decline(),
            Some("cancel") => asked.cancel(),
            other => panic!("{other:?}"),
        };
        let text = self.link.respond(&asked.id, ours);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), *message);
    }

    fn incoming(&mut self, message: &Value) {
        match self.link.handle(&message.to_string(), 1) {
            Event::Response { result, .. } => {
                let id = message["id"].as_i64().unwrap();
                let request = self.sent[&id].clone();
                self.response(&request, &result.unwrap());
            }
            Event::Request(request) => {
                self.news.push(format!("asks: {}", request.headline()));
                self.asked = Some(request);
            }
            Event::Notification(notification) => {
                for fold in &mut self.folds {
                    match fold.apply(&notification) {
                        Some(TurnNews::Completed(outcome)) => self.outcomes.push(*outcome),
                        Some(TurnNews::Item {
                            stage,
                            headline,
                            effect,
                            ..
                        }) => {
                            let mark = if effect { "!" } else { "" };
                            self.news.push(format!("{stage:?}{mark}: {headline}"));
                        }
                        Some(TurnNews::Retrying { message }) => self.news.push(message),
                        Some(TurnNews::Text) => {
                            let text = &fold.writing().unwrap().text;
                            self.news.push(format!("text: {text}"));
                        }
                        Some(TurnNews::Started { .. } | TurnNews::Usage) | None => {}
                    }
                }
            }
            Event::Ignored(_) => {}
        }
    }

    fn response(&mut self, request: &Value, result: &Value) {
        match request["method"].as_str().unwrap() {
            "initialize" => {
                let response = read::<Initialize>(result);
                let version = version::from_user_agent(&response.user_agent).unwrap();
                assert_eq!(version.to_string(), PINNED);
            }
            "thread/start" => self.opened = Some(read::<ThreadStart>(result)),
            "turn/start" => {
                let turn = read::<TurnStart>(result).turn;
                assert_eq!(turn.status, TurnStatus::InProgress);
                self.fold(request, Some(turn.id), None);
            }
            "turn/steer" => {
                let turn_id = read::<TurnSteer>(result).turn_id;
                assert_eq!(Some(&turn_id), self.folds[0].turn_id());
            }
            "turn/interrupt" => drop(read::<TurnInterrupt>(result)),
            "thread/queue/add" => {}
            other => panic!("{other}"),
        }
    }

    fn fold(&mut self, request: &Value, turn_id: Option<TurnId>, client_id: Option<ClientId>) {
        let thread_id = ThreadId::new(request["params"]["threadId"].as_str().unwrap());
        self.folds
            .push(TurnFold::new(thread_id, turn_id, client_id));
    }
}
