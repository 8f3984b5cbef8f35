//! Whether a Codex that runs can be used: it can save what it does, and has a login where its provider needs one.

use crate::app_server::{CodexHealth, Host, Session};
use crate::error::{CallEffect, agent_error, of_call};
use bridge_codex::wire::account::{AccountReadParams, LoginStartParams};
use bridge_codex::wire::method::{AccountLoginStart, AccountRead};
use bridge_core::port::{AgentError, Ledger};
use bridge_core::value::Class;

/// How Codex 0.166 warns that it started without its configuration. It then takes the provider to be OpenAI.
const BROKEN_CONFIG: &str = "Invalid configuration";

impl<L: Ledger> Host<L> {
    /// Makes sure that Codex can save what it does, and that a login is there where the provider needs one.
    pub(crate) async fn usable(&self, session: &Session) -> Result<(), AgentError> {
        let saves = self
            .learned
            .transcripts
            .check(session.home.as_deref())
            .await;
        let known = self.state.lock().await.logged_in;
        let (found, logged_in) = match (saves, known) {
            (Err(full), _) => (Err(full), known),
            (Ok(()), true) => (Ok(()), true),
            (Ok(()), false) => {
                let found = self.login(session).await;
                let logged_in = found.is_ok();
                (found, logged_in)
            }
        };
        let mut state = self.state.lock().await;
        state.logged_in = logged_in;
        state.health = Some(match &found {
            Ok(()) => state.ready(&session.incarnation),
            Err(error) => CodexHealth::not_ready(error.to_string()),
        });
        found
    }

    pub(super) async fn login(&self, session: &Session) -> Result<(), AgentError> {
        let connection = &session.connection;
        let read = || {
            connection.call::<AccountRead>(AccountReadParams {
                refresh_token: false,
            })
        };
        let harmless = |error| of_call(&error, CallEffect::Repeatable);
        let found = read().await.map_err(harmless)?;
        self.learned.account.logged_in(found.account.as_ref());
        if !found.is_login_missing() {
            return Ok(());
        }
        if let Some(key) = &self.options.api_key {
            tracing::info!("codex has no login; logging it in with OPENAI_API_KEY");
            let params = LoginStartParams::ApiKey {
                api_key: key.clone(),
            };
            connection
                .call::<AccountLoginStart>(params)
                .await
                .map_err(harmless)?;
            if !read().await.map_err(harmless)?.is_login_missing() {
                return Ok(());
            }
        }
        let mut reason = "Codex is not logged in: run `codex login` as the daemon's user (with the same CODEX_HOME), or start the daemon with OPENAI_API_KEY; the message is answered then".to_owned();
        if connection
            .config_warnings()
            .iter()
            .any(|warning| warning.contains(BROKEN_CONFIG))
        {
            reason.push_str(". Before that, mend config.toml in CODEX_HOME: Codex could not read it at its start, and without it does not know its provider; `codex-bridge doctor` shows the line");
        }
        Err(agent_error(Class::Config, reason))
    }
}
