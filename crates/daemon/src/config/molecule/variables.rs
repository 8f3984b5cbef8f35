//! The variables that turn the channel on without a file, as the legacy program and the platform's own runtime read them.
//! They hold tokens, so nothing of them is printed, in errors neither.

use super::super::environment::{ALLOW_HTTP, Environment};
use super::super::error::{ConfigProblem, ProblemPlace};
use bridge_channel::Secret;
use bridge_channel::molecule::TokenSource;
use serde::Deserialize;
use std::path::PathBuf;

/// One workspace.
pub(super) const ID: &str = "WORKSPACE_ID";
/// Where the platform is.
pub(super) const URL: &str = "PLATFORM_URL";
/// Its token.
pub(super) const TOKEN: &str = "MOLECULE_WORKSPACE_TOKEN";
/// A file that holds its token.
pub(super) const TOKEN_FILE: &str = "MOLECULE_WORKSPACE_TOKEN_FILE";
/// Several workspaces; it replaces the ones above.
const WORKSPACES: &str = "MOLECULE_WORKSPACES";
/// Its other name.
const WORKSPACES_JSON: &str = "MOLECULE_WORKSPACES_JSON";
/// The organisation.
pub(super) const ORG: &str = "MOLECULE_ORG_ID";
/// Where the platform's runtime keeps its files.
const CONFIGS_DIR: &str = "CONFIGS_DIR";
/// The runtime's own place in a container.
const CONTAINER_CONFIGS: &str = "/configs";
/// And on a machine, below the home directory.
const HOME_CONFIGS: &str = ".molecule-workspace";
/// The token there.
const AUTH_TOKEN: &str = ".auth_token";

/// What the environment says of the channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(super) url: Option<String>,
    pub(super) org_id: Option<String>,
    pub(super) allow_http: Option<bool>,
    /// Workspaces that it names, in its order.
    pub(super) named: Vec<Named>,
    pub(super) problems: Vec<ConfigProblem>,
    pub(super) warnings: Vec<String>,
}

/// A workspace that the environment names.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) id: String,
    pub(super) url: Option<String>,
    /// Absent where the file must name one.
    pub(super) token: Option<TokenSource>,
    /// The variable that names it.
    pub(super) variable: &'static str,
    /// Where its token is, for people.
    pub(super) token_from: String,
}

/// One entry of the list, as the runtime reads it.
#[derive(Deserialize)]
struct VariableEntry {
    id: Option<String>,
    token: Option<String>,
    platform_url: Option<String>,
}

impl Variables {
    /// Reads them. What is wrong is kept, to be reported together with what is wrong in the file.
    pub(in super::super) fn read(environment: &Environment) -> Self {
        let text = |name| environment.text(name);
        let mut found = Self {
            url: text(URL),
            org_id: text(ORG),
            ..Self::default()
        };
        match text(ALLOW_HTTP).as_deref() {
            None => {}
            Some("1" | "true") => found.allow_http = Some(true),
            Some("0" | "false") => found.allow_http = Some(false),
            Some(_) => found.problem(ALLOW_HTTP, "is neither 1 nor 0; write one of them"),
        }
        let list = [WORKSPACES, WORKSPACES_JSON]
            .into_iter()
            .find_map(|name| Some((name, text(name)?)));
        match (list, text(ID)) {
            (Some((variable, list)), _) => found.read_list(variable, &list),
            (None, Some(id)) => found.read_one(id, environment),
            (None, None) => {
                if text(TOKEN).is_some() {
                    found.warnings.push(format!(
                        "{TOKEN} is set and {ID} is not: the Molecule channel is off unless codex-bridge.toml names workspaces"
                    ));
                }
            }
        }
        found
    }

    fn read_one(&mut self, id: String, environment: &Environment) {
        let (token, token_from) = match self.token(environment) {
            Some((token, from)) => (Some(token), from),
            None => (None, String::new()),
        };
        self.named.push(Named {
            id,
            url: self.url.clone(),
            token,
            variable: ID,
            token_from,
        });
    }

    /// Where the token is, in the runtime's own order.
    fn token(&mut self, environment: &Environment) -> Option<(TokenSource, String)> {
        if let Some(value) = environment.text(TOKEN) {
            return Some((TokenSource::Value(Secret::new(value)), TOKEN.to_owned()));
        }
        if let Some(path) = environment.text(TOKEN_FILE).map(PathBuf::from) {
            let from = format!("{} ({TOKEN_FILE})", path.display());
            return Some((TokenSource::File(path), from));
        }
        let directory = match environment.text(CONFIGS_DIR) {
            Some(named) => PathBuf::from(named),
            None if writable(CONTAINER_CONFIGS) => PathBuf::from(CONTAINER_CONFIGS),
            None => environment.home()?.join(HOME_CONFIGS),
        };
        let path = directory.join(AUTH_TOKEN);
        path.exists().then(|| {
            let from = path.display().to_string();
            (TokenSource::File(path), from)
        })
    }

    fn read_list(&mut self, variable: &'static str, list: &str) {
        let entries: Vec<VariableEntry> = match serde_json::from_str(list) {
            Ok(entries) => entries,
            // The parser's own words quote the text, which holds tokens.
            Err(error) => {
                let what = format!(
                    "is no JSON list of workspaces (at line {}, column {}); write '[{{\"id\":\"…\",\"token\":\"…\",\"platform_url\":\"…\"}}]'",
                    error.line(),
                    error.column()
                );
                return self.problem(variable, what);
            }
        };
        if entries.is_empty() {
            return self.problem(variable, "is an empty list; unset it or name a workspace");
        }
        for (at, entry) in entries.into_iter().enumerate() {
            let filled = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
            let (Some(id), Some(token)) = (filled(entry.id), filled(entry.token)) else {
                let what = format!(
                    "entry {}: `id` and `token` are needed, both as texts",
                    at + 1
                );
                self.problem(variable, what);
                continue;
            };
            self.named.push(Named {
                id,
                url: filled(entry.platform_url).or_else(|| self.url.clone()),
                token: Some(TokenSource::Value(Secret::new(token))),
                variable,
                token_from: variable.to_owned(),
            });
        }
    }

    pub(super) fn problem(&mut self, variable: &'static str, what: impl Into<String>) {
        self.problems.push(ConfigProblem {
            place: ProblemPlace::Variable { variable },
            what: what.into(),
        });
    }
}

fn writable(path: &str) -> bool {
    let flags = nix::unistd::AccessFlags::W_OK;
    nix::unistd::access(path, flags).is_ok()
}
