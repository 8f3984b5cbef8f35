//! Messages of the local channel: on which terms a new conversation works, and the files that come with a message.

use crate::api::service::{DaemonService, closed};
use crate::process::ids;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bridge_channel::{Arrival, local};
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::Received;
use bridge_core::value::{Attachment, Conversation, MessageId, Sandbox, Tier};
use bridge_front::{
    BridgeService, Caller, FileUpload, NewFile, Scope, SubmitError, SubmitRequest, Submitted,
};

/// Longest name of a model.
const MODEL_MAX_CHARS: usize = 200;

/// On which terms a conversation works, as far as a message says.
#[derive(Debug, Default)]
struct Terms {
    cwd: Option<String>,
    model: Option<String>,
    sandbox: Option<Sandbox>,
}

impl Terms {
    /// Why a conversation that exists is not on these terms.
    fn differ(&self, known: &Conversation, sandbox: Sandbox) -> Option<String> {
        let place = self.cwd.as_ref().is_some_and(|cwd| *cwd != known.workdir);
        let wanted = self.model.as_ref();
        let model = wanted.is_some_and(|model| known.model.as_ref() != Some(model));
        let writes = self.sandbox.is_some_and(|wanted| wanted != sandbox);
        let of_model = match &known.model {
            Some(model) => format!(", model {model}"),
            None => String::new(),
        };
        (place || model || writes).then(|| {
            format!(
                "the conversation {} exists and works in {}, {}{of_model}: name another one with `-c NAME` for other terms",
                known.external_key,
                known.workdir,
                sandbox.as_str(),
            )
        })
    }
}

impl<L: Ledger> DaemonService<L> {
    /// Takes a message of the local channel in.
    pub(crate) async fn take_local(
        &self,
        mut message: SubmitRequest,
        key: &str,
        from: Caller,
    ) -> Result<Submitted, SubmitError> {
        let is_owner = from.may(Scope::Admin);
        let tier = if is_owner { Tier::Owner } else { Tier::Tool };
        let terms = self.terms_of(&message, &from)?;
        let files = decoded(std::mem::take(&mut message.files))?;
        let conversation = message.conversation.as_deref();
        let session = from.owner_session().map(ToOwned::to_owned);
        let session = session.as_deref();
        let trace = from.trace;
        let arrival = local::arrive(
            message.text,
            conversation,
            key,
            from.name,
            is_owner,
            session,
        );
        let mut arrival = arrival.map_err(|refusal| SubmitError::Unfit(refusal.to_string()))?;
        arrival.extras.trace = trace;
        let known = self.conversation_of(&arrival).await?;
        match &known {
            Some(known) => {
                let sandbox = self.sandbox_of(tier, known);
                if let Some(why) = terms.differ(known, sandbox) {
                    return Err(SubmitError::Unfit(why));
                }
            }
            // The transition compares them again: another message may begin the conversation first.
            None => {
                arrival.extras.cwd = terms.cwd;
                arrival.extras.model = terms.model;
                arrival.extras.sandbox = terms.sandbox;
            }
        }
        let (text, key) = (arrival.body.clone(), arrival.conversation.clone());
        let (received, kept) = match self.admit(&arrival).await.map_err(closed)? {
            Some(known) => (Received::Duplicate(known), None),
            None => self.receive_with(arrival, files).await?,
        };
        let (message_id, duplicate) = match received {
            Received::New(message_id) => (message_id, false),
            Received::Duplicate(message_id) => {
                self.expect_same(&message_id, text, key, kept).await?;
                (message_id, true)
            }
            Received::OtherTerms => {
                let why = "another message has just begun this conversation on other terms: name another conversation, or leave the terms out";
                return Err(SubmitError::Unfit(why.to_owned()));
            }
            Received::Full => return Err(SubmitError::Full),
            Received::OverBudget(over) => return Err(SubmitError::over_budget(over, ids::now())),
            Received::Revoked => return Err(SubmitError::Revoked),
        };
        let id = message_id.clone();
        let read = self.daemon.ledger.read(move |rows| {
            let Some(message) = rows.message(&id)? else {
                return Ok(None);
            };
            rows.conversation(&message.conversation_id)
        });
        // The message is on disk: a failed read must not look as if it were not.
        let (cwd, sandbox) = match read.await {
            Ok(Some(found)) => (found.workdir.clone(), self.sandbox_of(tier, &found)),
            Ok(None) | Err(_) => (String::new(), Sandbox::ReadOnly),
        };
        Ok(Submitted {
            message_id,
            duplicate,
            first: known.is_none(),
            cwd,
            sandbox,
        })
    }

    fn sandbox_of(&self, tier: Tier, conversation: &Conversation) -> Sandbox {
        let settings = self.daemon.settings();
        settings.thread_spec(tier, conversation).sandbox
    }

    /// Only the owner may say where a conversation works and what its turns may touch.
    fn terms_of(&self, message: &SubmitRequest, from: &Caller) -> Result<Terms, SubmitError> {
        if message.cwd.is_none() && message.model.is_none() && message.sandbox.is_none() {
            return Ok(Terms::default());
        }
        let unfit = |why: &str| SubmitError::Unfit(why.to_owned());
        if !from.may(Scope::Admin) {
            return Err(unfit(
                "only the owner may name a directory, a model or a sandbox; leave them out",
            ));
        }
        let sandbox = match message.sandbox.as_deref().map(str::parse) {
            None => None,
            Some(Ok(sandbox @ (Sandbox::ReadOnly | Sandbox::WorkspaceWrite))) => Some(sandbox),
            Some(_) => return Err(unfit("sandbox must be read-only or workspace-write")),
        };
        if let Some(model) = &message.model
            && (model.trim().is_empty()
                || model.chars().nth(MODEL_MAX_CHARS).is_some()
                || model.chars().any(char::is_control))
        {
            return Err(unfit("model is no name of a model"));
        }
        let any = from.may(Scope::Admin);
        let settings = self.daemon.settings();
        let directory = |cwd: &String| settings.conversation_directory(cwd, any, sandbox);
        let cwd = message.cwd.as_ref().map(directory).transpose();
        Ok(Terms {
            cwd: cwd.map_err(|error| SubmitError::Unfit(error.to_string()))?,
            model: message.model.clone(),
            sandbox,
        })
    }

    async fn conversation_of(
        &self,
        arrival: &Arrival,
    ) -> Result<Option<Conversation>, LedgerError> {
        let (channel, key) = (arrival.channel.clone(), arrival.conversation.clone());
        let read = self.daemon.ledger.read(move |rows| {
            let found = rows.conversation_by_key(&channel, &key)?;
            Ok(found)
        });
        read.await
    }

    /// Keeps the files, then takes the message in; without a row that names them they are removed again.
    async fn receive_with(
        &self,
        mut arrival: Arrival,
        files: Vec<NewFile>,
    ) -> Result<(Received, Option<Vec<Attachment>>), SubmitError> {
        let (kept, copies) = self.keep_files(files).await?;
        arrival.extras.attachments.clone_from(&kept);
        let received = self.commit(self.assign(arrival)).await;
        match &received {
            Ok(Received::New(_)) => {}
            // After another error the commit may have happened all the same.
            Ok(_) | Err(LedgerError::Refused(_)) => self.remove_files(copies).await,
            Err(_) => {}
        }
        Ok((received?, Some(kept)))
    }

    /// A key that was here before must mean the same message: its row has the text and the files.
    async fn expect_same(
        &self,
        message_id: &MessageId,
        text: String,
        key: String,
        kept: Option<Vec<Attachment>>,
    ) -> Result<(), SubmitError> {
        let known = message_id.clone();
        let read = self.daemon.ledger.read(move |rows| {
            let Some(message) = rows.message(&known)? else {
                return Ok(true);
            };
            let conversation = rows.conversation(&message.conversation_id)?;
            let same_key = conversation.is_none_or(|known| known.external_key == key);
            // Copies are named by their content.
            let same_files = kept.is_none_or(|kept| kept == message.attachments);
            Ok(same_key && same_files && message.body == text)
        });
        if read.await? {
            Ok(())
        } else {
            Err(SubmitError::OtherBody)
        }
    }
}

fn decoded(files: Vec<FileUpload>) -> Result<Vec<NewFile>, SubmitError> {
    let one = |file: FileUpload| {
        let bytes = BASE64_STANDARD
            .decode(&file.data)
            .map_err(|_| SubmitError::Unfit(format!("the file {:?} is no base64", file.name)))?;
        Ok(NewFile {
            name: Some(file.name),
            media_type: None,
            bytes,
        })
    };
    files.into_iter().map(one).collect()
}
