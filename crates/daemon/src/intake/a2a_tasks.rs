//! Tasks of other agents at the service: who they are to us, where what they say belongs, and the files they bring.
//!
//! How a task stands is derived in the core; what is said about it in A2A's words is the front's.

use crate::api::service::{DaemonService, closed};
use crate::config::{A2aConfig, Config, DefaultContext};
use crate::process::ids;
use bridge_channel::a2a::{self, Inbound, arrive, conversation_key, external_id, key_id};
use bridge_core::limits::excerpt;
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{
    AcceptInput, AnswerTask, Authority, Decide, DecideOutcome, DecideRefusal, InputAccepted,
    InputTarget, TaskAnswered,
};
use bridge_core::value::{
    Attachment, ChannelId, DecidedBy, ExternalId, MessageId, RequestVerdict, SenderKind, Task,
    TaskId, TaskInput, Tier,
};
use bridge_front::{
    A2aAuth, A2aProfile, A2aSkill, ANONYMOUS, BridgeService, Caller, ChannelView, NewAnswer,
    NewTaskInput, Scope, SubmitError, Via,
};
use bridge_host::answer_error;

/// The context of a peer's messages that name none, where they share one.
const ONE_CONTEXT: &str = "default";

/// Who an agent is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AgentPeer {
    tier: Tier,
    kind: SenderKind,
}

fn profile(config: &Config) -> A2aProfile {
    let A2aConfig {
        enabled,
        name,
        description,
        ..
    } = &config.a2a;
    let url = config.http.public_url.as_deref();
    A2aProfile {
        enabled: *enabled,
        name: name.clone(),
        description: description.clone(),
        url: url.map(|url| url.trim_end_matches('/').to_owned()),
        auth: config.a2a_auth(),
        skills: vec![skill()],
    }
}

impl A2aConfig {
    /// What a caller may do comes from its token and the configuration, never from what it says. A caller that can
    /// make tokens is the owner, a person; every other one is an agent.
    fn peer(&self, caller: &Caller) -> AgentPeer {
        if caller.may(Scope::Admin) {
            return AgentPeer {
                tier: Tier::Owner,
                kind: SenderKind::Person,
            };
        }
        let named = self.peer_config(&caller.name);
        let named = named.filter(|_| caller.name != ANONYMOUS);
        AgentPeer {
            tier: named.map_or(Tier::Peer, |peer| peer.tier),
            kind: SenderKind::Agent,
        }
    }

    /// An answer with the right that its sender has now, which may not be what it had when it gave the task.
    fn judged(&self, answer: NewAnswer) -> AnswerTask {
        let tier = self.peer(&answer.from).tier;
        let sender = answer.from.name;
        AnswerTask {
            idempotency_key: answer.key.map(|key| key_id(&sender, &key)),
            decide: Decide {
                request_id: answer.request_id,
                digest: None,
                verdict: RequestVerdict {
                    decision: answer.decision,
                    answers: answer.answers,
                    by: DecidedBy::caller(&sender),
                    via: Via::A2a.as_str().to_owned(),
                    at: ids::now(),
                },
                authority: Authority::Sender {
                    conversation_id: answer.conversation_id,
                    sender,
                    tier,
                },
            },
            task_id: answer.task_id,
            client_message_id: answer.client_message_id,
            original: answer.original,
        }
    }
}

fn skill() -> A2aSkill {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    A2aSkill {
        id: "codex".to_owned(),
        name: "Work on code".to_owned(),
        description: "Reads code and files, runs commands in a sandbox, answers questions and makes changes where \
                      it is allowed to. Takes text, data and files."
            .to_owned(),
        tags: words(&["code", "files", "shell", "review"]),
        examples: words(&[
            "Review the attached patch.",
            "Which of these two functions is faster, and why?",
        ]),
    }
}

/// Where a word belongs, and how it is known again.
struct Address {
    /// The conversation's key.
    key: String,
    message_id: MessageId,
    external_id: ExternalId,
}

impl<L: Ledger> DaemonService<L> {
    pub(crate) fn a2a_profile(&self) -> A2aProfile {
        profile(&self.daemon.settings().config)
    }

    /// Where other agents call, as far as they can.
    pub(crate) fn a2a_view(&self) -> Option<ChannelView> {
        let profile = self.a2a_profile();
        let (address, since) = self.listen.get().copied().filter(|_| profile.enabled)?;
        let base = profile.url.unwrap_or_else(|| format!("http://{address}"));
        let who = match profile.auth {
            A2aAuth::Tokens => "agents with a token (`codex-bridge peers add NAME`) call",
            A2aAuth::None => "every program on this machine calls without a token",
        };
        Some(ChannelView {
            channel: a2a::CHANNEL.to_owned(),
            state: "receiving".to_owned(),
            detail: format!(
                "{who} {base}/a2a; the agent card is {base}/.well-known/agent-card.json"
            ),
            since: since.into(),
        })
    }

    /// Takes in what another agent said.
    pub(crate) async fn take_input(
        &self,
        mut new: NewTaskInput,
    ) -> Result<InputAccepted, SubmitError> {
        if self.daemon.stopping.is_cancelled() {
            return Err(SubmitError::Stopping);
        }
        let Some(key) = self.key_of(&new).await? else {
            return Ok(InputAccepted::Unknown);
        };
        let message_id = ids::message_id();
        let owner = &new.from.name;
        let address = Address {
            external_id: external_id(
                owner,
                &new.client_message_id,
                new.key.as_deref(),
                &message_id,
            ),
            message_id,
            key,
        };
        if let Err(pressure) = self.gauge.admit() {
            let known = self.known_input(&address.external_id).await;
            return match known {
                Some((task, message_id)) if task.is_agents(owner) => {
                    let known = InputAccepted::Known { task, message_id };
                    self.same_input(known, &new.text).await
                }
                Some(_) | None => Err(closed(pressure)),
            };
        }
        self.has_room(&new).await?;
        let text = new.text.clone();
        let named = !new.files.is_empty();
        let (files, copies) = self.keep_files(std::mem::take(&mut new.files)).await?;
        let transition = match self.transition(new, files, address) {
            Ok(transition) => transition,
            Err(unfit) => {
                self.remove_files(copies).await;
                return Err(unfit);
            }
        };
        let taken = self.commit(transition).await;
        if named && !self.may_name_files(&taken).await {
            self.remove_files(copies).await;
        }
        self.same_input(taken?, &text).await
    }

    /// Whether a row may name the files that came with a word. After an error the commit may have happened all the same.
    async fn may_name_files(&self, taken: &Result<InputAccepted, LedgerError>) -> bool {
        match taken {
            Ok(InputAccepted::New { message_id, .. }) => {
                let id = message_id.clone();
                let read = self.daemon.ledger.read(move |rows| rows.message(&id));
                let message = read.await.ok().flatten();
                message.is_none_or(|message| !message.attachments.is_empty())
            }
            Ok(
                InputAccepted::Known { .. }
                | InputAccepted::KnownAnswer { .. }
                | InputAccepted::Over(_)
                | InputAccepted::Unknown
                | InputAccepted::Full
                | InputAccepted::OverBudget(_)
                | InputAccepted::Revoked,
            )
            | Err(LedgerError::Refused(_)) => false,
            Err(_) => true,
        }
    }

    /// The conversation that a word is said in: that of its task, or of the context that it names. None where its
    /// task is not known to this caller.
    async fn key_of(&self, new: &NewTaskInput) -> Result<Option<String>, SubmitError> {
        let owner = &new.from.name;
        let named = new.context.as_ref();
        let named = named.map(|context| conversation_key(owner, context));
        let Some(task_id) = new.task_id.clone() else {
            let fresh = || match self.daemon.settings().config.a2a.default_context {
                DefaultContext::New => conversation_key(owner, ids::conversation_id().as_str()),
                DefaultContext::PerPeer => conversation_key(owner, ONE_CONTEXT),
            };
            return Ok(Some(named.unwrap_or_else(fresh)));
        };
        let read = self.daemon.ledger.read(move |rows| {
            let Some(task) = rows.task(&task_id)? else {
                return Ok(None);
            };
            let conversation = rows.conversation(&task.conversation_id)?;
            let agents = task.start.is_none();
            let conversation = conversation.filter(|_| agents);
            Ok(conversation.map(|found| (task.owner, found.external_key)))
        });
        match read.await?.filter(|(of, _)| of == owner) {
            None => Ok(None),
            Some((_, key)) if named.as_ref().is_some_and(|named| *named != key) => {
                let why =
                    "the task belongs to another context; nothing was stored, leave contextId out";
                Err(SubmitError::Unfit(why.to_owned()))
            }
            Some((_, key)) => Ok(Some(key)),
        }
    }

    /// The transition that takes a word in, its files stored.
    fn transition(
        &self,
        new: NewTaskInput,
        files: Vec<Attachment>,
        to: Address,
    ) -> Result<AcceptInput, SubmitError> {
        let settings = self.daemon.settings();
        let peer = settings.config.a2a.peer(&new.from);
        let (owner, trace) = (new.from.name, new.from.trace);
        let inbound = Inbound {
            text: new.text,
            conversation: to.key,
            external_id: to.external_id,
            sender: owner.clone(),
            kind: peer.kind,
            tier: peer.tier,
            files,
            hops: new.hops,
        };
        let arrived = arrive(inbound);
        let mut arrival = arrived.map_err(|refusal| SubmitError::Unfit(refusal.to_string()))?;
        arrival.extras.trace = trace;
        let receive = self.assign_as(arrival, to.message_id);
        let place = match new.task_id {
            Some(task_id) => InputTarget::Old { task_id, owner },
            None => InputTarget::New(Task {
                task_id: ids::a2a_task_id(),
                channel: receive.channel.clone(),
                conversation_id: receive.conversation_id.clone(),
                owner,
                sequence: 0,
                created_at: ids::now(),
                start: None,
            }),
        };
        Ok(AcceptInput {
            receive,
            place,
            client_message_id: new.client_message_id,
            original: new.original,
            brief: new.brief,
        })
    }

    /// Whether there is room for the files of a message: looked at before they are written, because nobody would remove
    /// them soon. The transition that takes the message in decides.
    async fn has_room(&self, new: &NewTaskInput) -> Result<(), SubmitError> {
        let settings = self.daemon.settings();
        let tier = settings.config.a2a.peer(&new.from).tier;
        let (channel, sender) = (ChannelId::new(a2a::CHANNEL), new.from.name.clone());
        let storage = settings.storage(&channel, &sender, tier);
        if new.files.is_empty() || storage.bytes_per_day.is_none() {
            return Ok(());
        }
        let files = new.files.iter().map(|file| file.bytes.len());
        let bytes = u64::try_from(files.sum::<usize>()).unwrap_or(u64::MAX);
        let now = ids::now();
        let read = self
            .daemon
            .ledger
            .read(move |rows| rows.stored(&channel, &sender));
        match storage.over(&read.await?, bytes, now) {
            Some(over) => Err(SubmitError::over_budget(over, now)),
            None => Ok(()),
        }
    }

    /// What is in already, however closed the door is.
    async fn known_input(&self, external_id: &ExternalId) -> Option<(Task, MessageId)> {
        let (channel, external_id) = (ChannelId::new(a2a::CHANNEL), external_id.clone());
        let known = self.daemon.ledger.read(move |rows| {
            let Some(message) = rows.message_by_external(&channel, &external_id)? else {
                return Ok(None);
            };
            let task = match rows.task_of_message(&message.message_id)? {
                Some(task_id) => rows.task(&task_id)?,
                None => None,
            };
            Ok(task.map(|task| (task, message.message_id)))
        });
        known.await.ok().flatten()
    }

    /// A key that was here before must mean the same word: its row has the text.
    async fn same_input(
        &self,
        taken: InputAccepted,
        text: &str,
    ) -> Result<InputAccepted, SubmitError> {
        let InputAccepted::Known { message_id, .. } = &taken else {
            return Ok(taken);
        };
        let (message_id, text) = (message_id.clone(), text.to_owned());
        let read =
            self.daemon.ledger.read(move |rows| {
                let message = rows.message(&message_id)?;
                // Of one that a guard refused only the beginning is kept.
                Ok(message
                    .is_none_or(|message| message.body == text || message.body == excerpt(&text)))
            });
        if read.await? {
            Ok(taken)
        } else {
            Err(SubmitError::OtherBody)
        }
    }

    /// What a caller said before under a key.
    pub(crate) async fn input_before(
        &self,
        from: &Caller,
        task_id: &TaskId,
        key: &str,
    ) -> Result<Option<TaskInput>, LedgerError> {
        let (task_id, idempotency_key) = (task_id.clone(), key_id(&from.name, key));
        let read = self
            .daemon
            .ledger
            .read(move |rows| bridge_core::task::repeated_input(rows, &task_id, &idempotency_key));
        read.await
    }

    /// Answers a question with a word. What does not fit the question is refused before anything is written.
    pub(crate) async fn answer_input(
        &self,
        answer: NewAnswer,
    ) -> Result<TaskAnswered, LedgerError> {
        let id = answer.request_id.clone();
        let asked = self.ledger().read(move |rows| rows.request(&id)).await?;
        let waits = asked.filter(|request| request.state.waits());
        let answer = self.daemon.settings().config.a2a.judged(answer);
        let error = waits.and_then(|request| answer_error(&request, &answer.decide.verdict));
        match error {
            Some(why) => Ok(TaskAnswered::Judged(DecideOutcome::Refused(
                DecideRefusal::Unfit { why },
            ))),
            None => self.commit(answer).await,
        }
    }

    /// What is in one of our copies.
    pub(crate) async fn read_copy(&self, file: &Attachment) -> Result<Vec<u8>, String> {
        let brought = self.daemon.bring_files(std::slice::from_ref(file)).await;
        brought.map_err(|failure| failure.reason)?;
        let (file_store, digest) = (self.daemon.settings().start.file_store.clone(), file.digest);
        let read = tokio::task::spawn_blocking(move || file_store.read(&digest)).await;
        let read = read.map_err(|_| "the daemon is stopping".to_owned())?;
        read.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::{ConversationId, RequestDecision, RequestId};
    use bridge_front::Grants;

    fn settings(text: &str) -> A2aConfig {
        toml::from_str::<Config>(text).unwrap().a2a
    }

    fn holder(name: &str, scopes: &[Scope]) -> Caller {
        Caller {
            name: name.to_owned(),
            via: Via::A2a,
            program: None,
            grants: Grants::Scopes(scopes.to_vec()),
            trace: None,
        }
    }

    #[test]
    fn threat_13_token_and_config_decide_tier() {
        let found = settings(
            "[[a2a.peers]]\nname = 'boss'\ntier = 'owner'\n[[a2a.peers]]\nname = 'ci'\nturns_per_day = 3\n\
             [[a2a.peers]]\nname = 'anonymous'\ntier = 'owner'\n",
        );
        let peer = |caller: &Caller| {
            let peer = found.peer(caller);
            (peer.tier, peer.kind)
        };
        let agent = SenderKind::Agent;
        assert_eq!(peer(&holder("ann", &[Scope::A2a])), (Tier::Peer, agent));
        let many = [Scope::A2a, Scope::Read, Scope::Control, Scope::Approve];
        assert_eq!(peer(&holder("ann", &many)), (Tier::Peer, agent));
        assert_eq!(peer(&holder("boss", &[Scope::A2a])), (Tier::Owner, agent));
        assert_eq!(peer(&holder("ci", &[Scope::A2a])), (Tier::Peer, agent));
        assert_eq!(peer(&Caller::anonymous()), (Tier::Peer, agent));
        let owner = (Tier::Owner, SenderKind::Person);
        assert_eq!(peer(&holder("me", &[Scope::Admin])), owner);
        assert_eq!(peer(&Caller::local_owner(Via::Cli)), owner);
    }

    #[test]
    fn threat_13_answer_uses_current_sender_tier() {
        let tier = |text: &str| {
            let answer = settings(text).judged(NewAnswer {
                from: holder("boss", &[Scope::A2a]),
                task_id: TaskId::new("e"),
                conversation_id: ConversationId::new("c"),
                request_id: RequestId::new("r"),
                decision: RequestDecision::Accept,
                answers: None,
                client_message_id: "m".to_owned(),
                key: None,
                original: String::new(),
            });
            match answer.decide.authority {
                Authority::Sender { sender, tier, .. } if sender == "boss" => Some(tier),
                Authority::Sender { .. } | Authority::Owner | Authority::Caller { .. } => None,
            }
        };
        let named = "[[a2a.peers]]\nname = 'boss'\ntier = 'owner'\n";
        assert_eq!(tier(named), Some(Tier::Owner));
        assert_eq!(tier(""), Some(Tier::Peer));
    }
}
