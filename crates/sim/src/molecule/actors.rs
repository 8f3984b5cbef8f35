//! Who writes on the platform in a test or a demo: people at the canvas, peer agents, and the owner who makes,
//! rotates, pauses and removes workspaces. They write straight into the table, not over HTTP.

use axum::body::Bytes;
use serde_json::{Map, Value, json};

use super::a2a::{Letter, Stage, message};
use super::ids::WorkspaceId;
use super::notify::echo;
use super::office::{AutoAnswer, Office};
use super::outside::mark_canvas;
use super::rows::Planted;
use super::{Late, MoleculePlatform, Workspace};
use crate::error::Error;

/// A file that goes with a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaidFile {
    /// Its label.
    pub name: String,
    /// What it is said to be.
    pub media_type: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// A message with everything that one can have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// A text part; none when empty.
    pub text: String,
    /// More parts, as they stand.
    pub parts: Vec<Value>,
    /// `contextId`: the canvas starts a new one for a new session.
    pub context: Option<String>,
    /// `metadata` of the message.
    pub metadata: Option<Value>,
    /// Files; each is uploaded first and leaves a row of its own.
    pub files: Vec<SaidFile>,
}

impl Said {
    /// Just a text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

impl MoleculePlatform {
    /// Makes a workspace in the one family of this platform, so that it and the others may talk.
    pub fn add_workspace(&self, name: &str) -> Workspace {
        let made = self.change(|ground| {
            if ground.root.is_none() {
                ground.settle(Office::new("root", "root", 1, None));
            }
            let parent = ground.root;
            Some(ground.found(name, "agent", 1, parent))
        });
        handle(made)
    }

    /// Makes a workspace that is related to nobody.
    pub fn add_stranger(&self, name: &str) -> Workspace {
        let made = self.change(|ground| Some(ground.settle(Office::new(name, "agent", 1, None))));
        handle(made)
    }

    /// The workspace of this name with a live token; made when there is none.
    pub fn workspace(&self, name: &str) -> Workspace {
        let found = {
            let ground = self.ground.borrow();
            let office = ground.offices.values().find(|office| office.name == name);
            office.map(|office| office.id).map(|id| {
                let mut tokens = ground.tokens.iter();
                let token = tokens.find(|(_, token)| token.workspace == id);
                (id, token.map(|(text, _)| text.clone()).unwrap_or_default())
            })
        };
        match found {
            Some(found) => handle(Some(found)),
            None => self.add_workspace(name),
        }
    }

    /// A person writes at the canvas; gives the row's id.
    pub fn canvas_says(&self, to: &Workspace, text: &str) -> Result<String, Error> {
        self.canvas_says_with(to, &Said::text(text))
    }

    /// A person writes at the canvas, with files, another context, odd parts.
    pub fn canvas_says_with(&self, to: &Workspace, said: &Said) -> Result<String, Error> {
        self.say(None, to, said)
    }

    /// Several people press return in the same microsecond.
    pub fn canvas_says_at_once(
        &self,
        to: &Workspace,
        texts: &[&str],
    ) -> Result<Vec<String>, Error> {
        let to = WorkspaceId::read(&to.id).ok_or(Error::NotStored)?;
        let rows: Vec<Option<String>> = self.change(|ground| {
            let at = ground.clock.tick();
            let texts = texts
                .iter()
                .map(|text| json!([{"kind": "text", "text": text}]));
            let mut bodies: Vec<Value> = texts.map(|parts| message(&parts, None, None)).collect();
            for body in &mut bodies {
                mark_canvas(ground.edition, body);
            }
            let letters = bodies.into_iter().map(|body| Letter {
                from: None,
                to,
                body,
            });
            letters
                .map(|letter| ground.deliver_at(letter, Stage::Http, at))
                .collect()
        });
        let rows: Option<Vec<String>> = rows.into_iter().collect();
        rows.ok_or(Error::NotStored)
    }

    /// A peer writes; gives the row's id.
    pub fn peer_says(&self, from: &Workspace, to: &Workspace, text: &str) -> Result<String, Error> {
        self.peer_says_with(from, to, &Said::text(text))
    }

    /// A peer writes, with whatever a message can have.
    pub fn peer_says_with(
        &self,
        from: &Workspace,
        to: &Workspace,
        said: &Said,
    ) -> Result<String, Error> {
        let from = WorkspaceId::read(&from.id).ok_or(Error::NotStored)?;
        self.say(Some(from), to, said)
    }

    fn say(&self, from: Option<WorkspaceId>, to: &Workspace, said: &Said) -> Result<String, Error> {
        let to = WorkspaceId::read(&to.id).ok_or(Error::NotStored)?;
        let row = self.change(|ground| {
            if !ground.offices.contains_key(&to) {
                return None;
            }
            let mut parts = Vec::new();
            if !said.text.is_empty() {
                parts.push(json!({"kind": "text", "text": said.text}));
            }
            parts.extend(said.parts.iter().cloned());
            for file in &said.files {
                let bytes = Bytes::from(file.bytes.clone());
                let described = ground.leave_file(to, &file.name, &file.media_type, bytes);
                parts.push(json!({"kind": "file", "file": described}));
            }
            let mut body = message(
                &json!(parts),
                said.metadata.as_ref(),
                said.context.as_deref(),
            );
            if from.is_none() {
                mark_canvas(ground.edition, &mut body);
            }
            ground.deliver(Letter { from, to, body })
        });
        row.ok_or(Error::NotStored)
    }

    /// From now on this peer writes back at once whenever somebody sends it a message over HTTP.
    pub fn answering(&self, peer: &Workspace, auto: AutoAnswer) {
        self.with_office(peer, |office| office.auto = Some(auto));
    }

    /// Puts a row into a feed with these fields over the platform's own; gives its id.
    pub fn plant_row(&self, to: &Workspace, fields: Value) -> Result<String, Error> {
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Map::new(),
        };
        self.plant(to, Planted::Over(fields))
    }

    /// Puts anything into a feed, shown as it stands, however wrong it is.
    pub fn plant_raw(&self, to: &Workspace, row: Value) -> Result<String, Error> {
        self.plant(to, Planted::Raw(row))
    }

    fn plant(&self, to: &Workspace, planted: Planted) -> Result<String, Error> {
        let to = WorkspaceId::read(&to.id).ok_or(Error::NotStored)?;
        let row = self.change(|ground| ground.plant(to, planted));
        row.ok_or(Error::NotStored)
    }

    /// Puts the echo of a bubble into a feed that no call made: what a page gets heavy by.
    pub fn plant_bubble(&self, to: &Workspace, text: &str) -> Result<String, Error> {
        let to = WorkspaceId::read(&to.id).ok_or(Error::NotStored)?;
        let row = self.change(|ground| ground.log(to, echo(text, &[]), Late::Never));
        row.ok_or(Error::NotStored)
    }

    /// The owner makes a new token; every earlier one is refused from now on.
    pub fn rotate(&self, workspace: &Workspace) -> Workspace {
        let Some(id) = WorkspaceId::read(&workspace.id) else {
            return workspace.clone();
        };
        let token = self.change(|ground| {
            ground.revoke_all(id);
            ground.mint(id)
        });
        handle(Some((id, token)))
    }

    /// The owner revokes every token and makes no new one.
    pub fn revoke_tokens(&self, workspace: &Workspace) {
        if let Some(id) = WorkspaceId::read(&workspace.id) {
            self.change(|ground| ground.revoke_all(id));
        }
    }

    /// The owner revokes this one token.
    pub fn revoke_token(&self, workspace: &Workspace) {
        self.change(|ground| ground.tokens.remove(&workspace.token).map(drop));
    }

    /// The owner makes another token beside those that are there.
    pub fn add_token(&self, workspace: &Workspace) -> Workspace {
        let Some(id) = WorkspaceId::read(&workspace.id) else {
            return workspace.clone();
        };
        let token = self.change(|ground| ground.mint(id));
        handle(Some((id, token)))
    }

    /// The owner deletes the workspace.
    pub fn remove(&self, workspace: &Workspace) {
        if let Some(id) = WorkspaceId::read(&workspace.id) {
            self.change(|ground| ground.remove(id));
        }
    }

    /// The owner sets the workspace aside.
    pub fn pause(&self, workspace: &Workspace) {
        self.with_office(workspace, Office::pause);
    }

    /// The owner takes it up again.
    pub fn resume(&self, workspace: &Workspace) {
        self.with_office(workspace, Office::resume);
    }

    /// Whether the workspace may write bubbles; the newer platform answers 403 when not.
    pub fn allow_talk(&self, workspace: &Workspace, allowed: bool) {
        self.with_office(workspace, |office| office.talk_to_user = allowed);
    }

    fn with_office(&self, workspace: &Workspace, act: impl FnOnce(&mut Office)) {
        self.change(|ground| ground.office_mut(&workspace.id).map(act));
    }
}

fn handle(made: Option<(WorkspaceId, String)>) -> Workspace {
    let (id, token) = match made {
        Some((id, token)) => (id.to_string(), token),
        None => Default::default(),
    };
    Workspace { id, token }
}
