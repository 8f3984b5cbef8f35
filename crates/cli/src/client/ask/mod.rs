//! Approval requests of Codex at a terminal: shows them, takes a person's answer, and takes a request back when it was
//! decided elsewhere. It reads the open requests from the daemon whenever something changed.

mod dialogue;
mod keyboard;
mod request;

pub(crate) use keyboard::Keyboard;
pub(crate) use request::{AnswerBy, ApprovalView};

use crate::client::api::{ApiClient, ClientError};
use crate::client::page::{DIM, PLAIN, YELLOW};
use crate::client::screen::Screen;
use dialogue::{Dialogue, DialogueDecision, DialogueStep};
use std::collections::{BTreeMap, BTreeSet};

/// Which messages' requests are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestFilter {
    All,
    Messages(BTreeSet<String>),
}

impl RequestFilter {
    pub(crate) fn matches(&self, request: &ApprovalView) -> bool {
        match self {
            Self::All => true,
            Self::Messages(ids) => ids.contains(&request.message_id),
        }
    }
}

/// How requests are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskMode {
    /// With a prompt: a person at a terminal.
    Prompt,
    /// With the command that answers.
    Show,
    /// Not at all.
    Silent,
}

/// Shows open requests and takes answers.
#[derive(Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) client: &'a ApiClient,
    mode: AskMode,
    keys: Keyboard,
    /// Requests that were shown, or wait to be.
    known: BTreeMap<String, ApprovalView>,
    /// Requests that wait for their prompt, in order.
    waiting: Vec<String>,
    talk: Option<Dialogue>,
    /// Decisions made here that the daemon has not reported yet.
    own: usize,
    /// Who is given the first request that was shown.
    #[cfg(feature = "demo")]
    first: Option<tokio::sync::oneshot::Sender<ApprovalView>>,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(client: &'a ApiClient, mode: AskMode) -> Self {
        Self {
            client,
            mode,
            keys: Keyboard::default(),
            known: BTreeMap::new(),
            waiting: Vec::new(),
            talk: None,
            own: 0,
            #[cfg(feature = "demo")]
            first: None,
        }
    }

    /// Gives the first request to somebody, once it was shown.
    #[cfg(feature = "demo")]
    pub(crate) fn tell_first(&mut self, first: tokio::sync::oneshot::Sender<ApprovalView>) {
        self.first = Some(first);
    }

    /// Whether the daemon now tells of a decision that was made here, and shown.
    pub(crate) fn is_own_decision(&mut self, line: &str) -> bool {
        let decision = ["Approved by ", "Declined by "];
        let own = self.own > 0 && decision.iter().any(|begin| line.starts_with(begin));
        if own {
            self.own = self.own.saturating_sub(1);
        }
        own
    }

    /// Prompts on a terminal, shows elsewhere.
    pub(crate) fn for_screen(client: &'a ApiClient, screen: &Screen) -> Self {
        let mode = if screen.is_terminal() && Keyboard::are_there() {
            AskMode::Prompt
        } else {
            AskMode::Show
        };
        Self::new(client, mode)
    }

    /// Whether a request is on the screen, and must be taken back when it is decided elsewhere.
    pub(crate) fn is_asking(&self) -> bool {
        !self.known.is_empty()
    }

    /// Requests that were open at the last look.
    pub(crate) fn open(&self) -> impl Iterator<Item = &ApprovalView> {
        self.known.values()
    }

    /// Reads the open requests: shows new ones, takes back those that are decided.
    pub(crate) async fn look(
        &mut self,
        filter: &RequestFilter,
        screen: &mut Screen,
    ) -> Result<(), ClientError> {
        if self.mode == AskMode::Silent {
            return Ok(());
        }
        let open: BTreeMap<_, _> = self
            .client
            .open_requests()
            .await?
            .into_iter()
            .filter(|request| filter.matches(request))
            .map(|request| (request.request_id.clone(), request))
            .collect();
        let gone = self.known.keys().filter(|id| !open.contains_key(*id));
        for id in gone.cloned().collect::<Vec<_>>() {
            self.take_back(&id, screen).await;
        }
        for (id, request) in open {
            if !self.known.contains_key(&id) {
                if self.mode == AskMode::Show {
                    show(&request, AnswerBy::Command, screen);
                    #[cfg(feature = "demo")]
                    if let Some(first) = self.first.take() {
                        let _left = first.send(request.clone());
                    }
                }
                self.known.insert(id.clone(), request);
                self.waiting.push(id);
            }
        }
        self.ask_next(screen);
        Ok(())
    }

    async fn take_back(&mut self, id: &str, screen: &mut Screen) {
        let Some(was) = self.known.remove(id) else {
            return;
        };
        self.waiting.retain(|waiting| waiting != id);
        let asked = self
            .talk
            .as_ref()
            .is_some_and(|talk| talk.request.request_id == id);
        if asked {
            self.talk = None;
            self.keys.show();
            screen.retract();
        }
        let said = match self.client.request(id).await {
            Ok(now) => now.outcome(),
            Err(_) => format!("{} is not asked any more", was.handle()),
        };
        screen.say(&format!("✓ {said}"), YELLOW);
    }

    fn ask_next(&mut self, screen: &mut Screen) {
        if self.mode != AskMode::Prompt || self.talk.is_some() || self.waiting.is_empty() {
            return;
        }
        let id = self.waiting.remove(0);
        let Some(request) = self.known.get(&id).cloned() else {
            return;
        };
        show(&request, AnswerBy::Prompt, screen);
        let talk = Dialogue::new(request);
        self.keys.forget();
        self.prompt(&talk, screen);
        self.talk = Some(talk);
    }

    fn prompt(&mut self, talk: &Dialogue, screen: &mut Screen) {
        let (above, prompt) = talk.ask();
        self.keys.listen(talk.secret());
        for line in above {
            screen.say(&line, PLAIN);
        }
        screen.ask(&prompt);
    }

    /// The next line that was typed as an answer; waits for ever while nothing is asked.
    pub(crate) async fn typed(&mut self) -> Option<String> {
        match self.talk {
            Some(_) => self.keys.line().await,
            None => std::future::pending().await,
        }
    }

    /// Takes what was typed; `None` is the end of the input, and everything is left for later.
    pub(crate) async fn take(&mut self, line: Option<String>, screen: &mut Screen) {
        let Some(mut talk) = self.talk.take() else {
            return;
        };
        screen.typed(talk.secret() || line.is_none());
        self.keys.show();
        let step = match &line {
            Some(line) => talk.take(line),
            None => {
                self.mode = AskMode::Show;
                DialogueStep::Later
            }
        };
        match step {
            DialogueStep::Again(why) => {
                screen.say(&why, PLAIN);
                self.prompt(&talk, screen);
                self.talk = Some(talk);
            }
            DialogueStep::Next => {
                self.prompt(&talk, screen);
                self.talk = Some(talk);
            }
            DialogueStep::Later => {
                let request = &talk.request;
                let code = request.handle();
                let said = format!("{code} stays open; `codex-bridge requests` shows it");
                screen.say(&said, DIM);
                self.ask_next(screen);
            }
            DialogueStep::Done(choice) => {
                self.decide(talk.request, choice, screen).await;
                self.ask_next(screen);
            }
        }
    }

    async fn decide(
        &mut self,
        request: ApprovalView,
        choice: DialogueDecision,
        screen: &mut Screen,
    ) {
        let DialogueDecision { decision, answers } = choice;
        let id = request.request_id.clone();
        let code = request.handle().to_owned();
        match self.client.decide(&id, decision, answers).await {
            Ok(_) => {
                self.known.remove(&id);
                self.own = self.own.saturating_add(1);
                let said = match decision {
                    "accept" => format!("you accepted {code}"),
                    "acceptForSession" => format!("you accepted {code} for the session"),
                    "cancel" => format!("you declined {code} and ended its turn"),
                    _ => format!("you declined {code}"),
                };
                screen.say(&format!("✓ {said}"), |paint, text| paint.green(text));
            }
            Err(error) => {
                let said = format!("{code} is not decided by this: {error}");
                screen.say(&said, |paint, text| paint.red(text));
                if error.may_pass() {
                    // The daemon is away: the first look after its return asks again.
                    self.known.remove(&id);
                    return;
                }
                // Still open: it is asked again. Decided elsewhere: the next look takes it back.
                let still = self.client.request(&id).await;
                if still.is_ok_and(|request| request.is_open()) {
                    self.waiting.push(id);
                }
            }
        }
    }
}

fn show(request: &ApprovalView, answer_by: AnswerBy, screen: &mut Screen) {
    let now = jiff::Timestamp::now().as_millisecond();
    let lines = request.lines(answer_by, now, screen.paint(), screen.width());
    screen.lines(&lines);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_daemon::term::Paint;
    use bridge_front::Time;

    const GUIDE: &str = include_str!("../../../../../docs/guides/control.md");

    #[test]
    fn guide_shows_the_box_as_printed() {
        let request = ApprovalView {
            code: "k3x9qz".to_owned(),
            task_id: Some("codex-3f2a91c04d7e".to_owned()),
            requester: "you".to_owned(),
            kind: "command".to_owned(),
            wants: "approval".to_owned(),
            shown: "command: /bin/bash -lc 'git push origin main'\ncwd: /home/ada/project\nsandbox: workspace-write, and if accepted it may run outside of it\nreason: publish the fix".to_owned(),
            deadline: Time::from_ms(59 * 60_000),
            state: "open".to_owned(),
            ..ApprovalView::default()
        };
        let mut lines = request.lines(AnswerBy::Prompt, 0, Paint::plain(), Some(80));
        let (_, prompt) = Dialogue::new(request).ask();
        lines.push(prompt.trim_end().to_owned());
        let printed = lines.join("\n");
        assert!(GUIDE.contains(&printed), "{printed}");
    }
}
