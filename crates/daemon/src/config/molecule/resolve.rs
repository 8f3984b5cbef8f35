//! The workspaces in force: the file's tables and the environment's variables put together, each judged as the
//! channel itself would judge it.

use super::super::error::{ConfigProblem, ProblemPlace};
use super::super::load::ValueOrigins;
use super::variables::{self, Named, Variables};
use super::{DeliveryKey, MoleculeConfig, WorkspaceConfig, peers};
use bridge_channel::molecule::{
    Delivery, FirstStart, Molecule, OpenError, Reach, Settings, TokenSource, check_url,
};
use bridge_core::port::TurnTransport;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

/// A workspace that is served.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// What the channel is opened with.
    pub settings: Settings,
    /// What runs its turns.
    pub via: TurnTransport,
    /// Where its token is, for people.
    pub token_from: String,
}

impl Workspace {
    /// What is in force, without the token.
    pub fn in_a_line(&self) -> String {
        let called = match &self.settings.delivery {
            Delivery::Poll => String::new(),
            Delivery::Push { url } => format!(", called at {url}"),
        };
        format!(
            "molecule workspace {} at {}, token from {}, {}, turns by {}{called}",
            self.settings.workspace,
            self.settings.platform_url,
            self.token_from,
            self.settings.origins,
            program(self.via),
        )
    }

    /// The file that holds its token, where one does.
    pub(in super::super) fn token_file(&self) -> Option<&Path> {
        match &self.settings.token {
            TokenSource::File(path) => Some(path),
            TokenSource::Value(_) => None,
        }
    }

    /// Where the platform calls the daemon, if it does.
    pub fn push_url(&self) -> Option<&str> {
        match &self.settings.delivery {
            Delivery::Poll => None,
            Delivery::Push { url } => Some(url),
        }
    }

    fn origins(&self) -> Map<String, Value> {
        let tiers = self.settings.origins.tiers.iter();
        let tiers = tiers.map(|(origin, tier)| (origin.as_str().to_owned(), tier.as_str().into()));
        let mut shown: Map<String, Value> = tiers.collect();
        shown.insert("owners".to_owned(), json!(self.settings.origins.owners));
        let agents = self.settings.origins.agents.iter();
        let agents = agents.map(|(id, tier)| (id.clone(), tier.tier().as_str().into()));
        let agents: Map<String, Value> = agents.collect();
        shown.insert("agents".to_owned(), agents.into());
        shown
    }

    /// The same for programs.
    pub(in super::super) fn report(&self) -> WorkspaceReport {
        WorkspaceReport {
            workspace: self.settings.workspace.clone(),
            platform_url: self.settings.platform_url.clone(),
            token_from: self.token_from.clone(),
            origins: self.origins(),
            transport: program(self.via).to_owned(),
            push_url: self.push_url().map(ToOwned::to_owned),
        }
    }
}

/// A workspace as `config check --json` tells of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(in super::super) struct WorkspaceReport {
    workspace: String,
    platform_url: String,
    /// Where its token is; never the token.
    token_from: String,
    /// The tier of each kind of sender, the `owners`, and `agents` with a tier of their own.
    origins: Map<String, Value>,
    /// What runs its turns.
    transport: String,
    /// Where the platform calls the daemon, if it does.
    push_url: Option<String>,
}

/// What the keys and the variables amount to.
#[derive(Debug, Default)]
pub(in super::super) struct Resolved {
    pub(in super::super) workspaces: Vec<Workspace>,
    pub(in super::super) problems: Vec<ConfigProblem>,
    pub(in super::super) warnings: Vec<String>,
}

/// A table of the file, or nothing where only the environment names the workspace.
struct WorkspaceTable<'a> {
    keys: &'a WorkspaceConfig,
    place: Option<ProblemPlace>,
}

/// Puts the workspaces together. A table and a variable that name the same workspace are one: the variable says
/// where it is and its token, the table the rest.
pub(in super::super) fn resolve(
    config: &MoleculeConfig,
    origins: &ValueOrigins,
    variables: Variables,
) -> Resolved {
    let Variables {
        url,
        org_id,
        allow_http,
        named,
        mut problems,
        warnings,
    } = variables;
    problems.extend(peers::problems(&config.peers, origins));
    let mut resolving = Resolving {
        config,
        url,
        org_id,
        allow_http: allow_http.unwrap_or(config.allow_http),
        seen: BTreeMap::new(),
        resolved: Resolved {
            problems,
            warnings,
            ..Resolved::default()
        },
    };
    let mut named: Vec<Option<Named>> = named.into_iter().map(Some).collect();
    for (at, keys) in config.workspace.iter().enumerate() {
        let place = origins.first_of(&format!("molecule.workspace.{at}."));
        let same = named
            .iter_mut()
            .find(|one| one.as_ref().is_some_and(|one| alike(&one.id, &keys.id)))
            .and_then(Option::take);
        resolving.add(&WorkspaceTable { keys, place }, same);
    }
    let keys = &WorkspaceConfig::default();
    for one in named.into_iter().flatten() {
        resolving.add(&WorkspaceTable { keys, place: None }, Some(one));
    }
    resolving.resolved
}

fn alike(one: &str, other: &str) -> bool {
    one.trim().eq_ignore_ascii_case(other.trim())
}

struct Resolving<'a> {
    config: &'a MoleculeConfig,
    url: Option<String>,
    org_id: Option<String>,
    allow_http: bool,
    seen: BTreeMap<String, ProblemPlace>,
    resolved: Resolved,
}

impl Resolving<'_> {
    fn add(&mut self, table: &WorkspaceTable<'_>, named: Option<Named>) {
        let variable = named.as_ref().map(|one| one.variable);
        let place = table.place.unwrap_or(ProblemPlace::Variable {
            variable: variable.unwrap_or(variables::ID),
        });
        match self.build(table.keys, named, place) {
            Ok(workspace) => {
                self.warn(&workspace);
                self.resolved.workspaces.push(workspace);
            }
            Err(what) => self.resolved.problems.push(ConfigProblem { place, what }),
        }
    }

    fn build(
        &mut self,
        keys: &WorkspaceConfig,
        named: Option<Named>,
        place: ProblemPlace,
    ) -> Result<Workspace, String> {
        let config = self.config;
        let id = match (&named, keys.id.trim()) {
            (Some(named), "") => named.id.trim().to_owned(),
            (_, id) => id.to_owned(),
        };
        let id = Uuid::parse_str(&id)
            .map_err(|_| {
                format!(
                    "the workspace id {id:?} is no UUID; copy it from the canvas, External Connect"
                )
            })?
            .hyphenated()
            .to_string();
        if let Some(before) = self.seen.insert(id.clone(), place) {
            return Err(format!(
                "the workspace {id} is named twice (also at {before}); name it once"
            ));
        }
        let named_url = named.as_ref().and_then(|one| one.url.clone());
        let url = named_url
            .or_else(|| keys.platform_url.clone())
            .or_else(|| self.url.clone())
            .or_else(|| config.platform_url.clone())
            .ok_or_else(|| format!("the workspace {id} has no platform; set {}, or `platform_url` in codex-bridge.toml, to something like https://platform.example.com", variables::URL))?;
        check_url(&url).map_err(|error| format!("the platform's address {error}"))?;
        let mut origins = keys.origins.resolve(&config.origins);
        origins.agents = peers::of_workspace(&config.peers, &id);
        origins
            .check()
            .map_err(|wrong| format!("workspace {id}: {wrong}"))?;
        let (token, token_from) = token(&id, keys, named)?;
        let delivery = delivery(&id, keys, config)?;
        let settings = Settings {
            workspace: id,
            platform_url: url,
            token,
            org_id: keys
                .org_id
                .clone()
                .or_else(|| self.org_id.clone())
                .or_else(|| config.org_id.clone()),
            allow_http: keys.allow_http.unwrap_or(self.allow_http),
            origins,
            first_start: FirstStart {
                minutes: config.first_start_minutes,
            },
            poll: Duration::from_secs(config.poll_secs),
            wake: config.wake,
            max_reply_chars: usize::try_from(config.max_reply_chars).unwrap_or(usize::MAX),
            name: keys.name.clone().or_else(|| config.name.clone()),
            delivery,
            on_unknown: config.unknown_outcome,
        };
        // The channel's own judgement; nothing is said to the platform.
        Molecule::open(settings.clone()).map_err(|error| refusal(&settings, &error))?;
        Ok(Workspace {
            via: keys.transport.unwrap_or(config.transport),
            settings,
            token_from,
        })
    }

    fn warn(&mut self, workspace: &Workspace) {
        let settings = &workspace.settings;
        let id = &settings.workspace;
        let plain = matches!(check_url(&settings.platform_url), Ok((_, Reach::Plain)));
        if plain {
            let canvas = if settings.origins.has_owner() {
                "anyone who reaches it can write as the owner of this machine"
            } else {
                "anyone on the way can write in anybody's name"
            };
            self.resolved.warnings.push(format!(
                "the platform of workspace {id} is on plain http: its token travels in the clear, and {canvas}; use https wherever that network is not yours alone"
            ));
        }
        if let Some(url) = workspace.push_url()
            && matches!(check_url(url), Ok((_, Reach::Plain)))
        {
            self.resolved.warnings.push(format!(
                "the platform calls workspace {id} at {url}, which is plain http: its secret and all messages travel in the clear"
            ));
        }
        if !settings.origins.is_decided() {
            self.resolved.warnings.push(format!(
                "nobody who writes to workspace {id} counts as owner, so nobody there can approve, stop or give commands; the platform can't prove who writes at its canvas, so say it: `canvas = \"owner\"` under [molecule.origins], see docs/guides/molecule.md"
            ));
        }
        if let TokenSource::File(path) = &settings.token
            && readable_by_others(path)
        {
            self.resolved.warnings.push(format!(
                "others can read the token file {}; run `chmod 600 {}`",
                path.display(),
                path.display()
            ));
        }
    }
}

fn token(
    id: &str,
    keys: &WorkspaceConfig,
    named: Option<Named>,
) -> Result<(TokenSource, String), String> {
    let named_token = named.and_then(|one| Some((one.token?, one.token_from)));
    let from_file = || {
        let path = keys.token_file.clone()?;
        let from = path.display().to_string();
        Some((TokenSource::File(path), from))
    };
    let found = named_token.or_else(from_file).ok_or_else(|| {
        format!(
            "the workspace {id} has no token; name a file that holds it, readable by this user alone, as its `token_file` in codex-bridge.toml, or set WORKSPACE_ID={id} with {} or {}",
            variables::TOKEN,
            variables::TOKEN_FILE
        )
    })?;
    match &found.0 {
        TokenSource::File(path) if !path.is_absolute() => Err(format!(
            "the token file {} of workspace {id} is not an absolute path; write it out from `/`",
            path.display()
        )),
        TokenSource::File(_) | TokenSource::Value(_) => Ok(found),
    }
}

fn delivery(id: &str, keys: &WorkspaceConfig, config: &MoleculeConfig) -> Result<Delivery, String> {
    match keys.delivery.unwrap_or(config.delivery) {
        DeliveryKey::Poll => Ok(Delivery::Poll),
        DeliveryKey::Push => {
            let url = keys.push_url.as_ref().or(config.push_url.as_ref());
            let url = url.ok_or_else(|| format!("the workspace {id} has `delivery = \"push\"` and no `push_url`; write the address under which the platform reaches this daemon, such as \"https://codex.example.com\""))?;
            check_url(url).map_err(|error| format!("`push_url` of the workspace {id} {error}"))?;
            Ok(Delivery::Push { url: url.clone() })
        }
    }
}

fn refusal(settings: &Settings, error: &OpenError) -> String {
    format!("workspace {}: {error}", settings.workspace)
}

/// What runs the turns, in the file's word.
fn program(via: TurnTransport) -> &'static str {
    match via {
        TurnTransport::AppServer => "app-server",
        TurnTransport::Exec => "exec",
    }
}

fn readable_by_others(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.mode() & 0o077 != 0)
}
