//! Tokens: who has one, making one, revoking one. A token is in one answer, the one to whoever made it.

use super::read::{Body, Who};
use super::{Context, ProblemResponse};
use crate::control::Scope;
use crate::token::{NAME_MAX_CHARS, is_name, is_reserved};
use crate::{
    BridgeService, NewToken, StopRequest, Stopped, TokenHash, TokenList, TokenMade, TokenRevoked,
    TokenView,
};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{AddToken, RevokeToken, StopCause, TokenAdded};

pub(super) async fn list<D: BridgeService>(
    State(context): State<Context<D>>,
) -> Result<Json<TokenList>, ProblemResponse> {
    let tokens = context.service.ledger().read(|rows| rows.tokens()).await?;
    let tokens = tokens.into_iter().map(TokenView::from).collect();
    Ok(Json(TokenList { tokens }))
}

pub(super) async fn add<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Body(new): Body<NewToken>,
) -> Result<(StatusCode, Json<TokenMade>), ProblemResponse> {
    let name = named(new.name)?;
    if is_reserved(&name) {
        return Err(ProblemResponse::unprocessable(format!(
            "{name} is what this bridge calls itself or its owner, and the record of who did what would mislead; \
             choose another name"
        )));
    }
    let scopes = scopes(&new.scopes)?;
    let Some(token) = context.service.random_token() else {
        return Err(ProblemResponse::unavailable(
            "the system gives no random numbers now; no token was made",
        ));
    };
    let words: Vec<String> = scopes
        .iter()
        .map(|scope| scope.as_str().to_owned())
        .collect();
    let add = AddToken {
        name: name.clone(),
        hash: TokenHash::of(&token).hex(),
        scopes: words.clone(),
        rotate: new.rotate,
        by: caller.actor().to_string(),
    };
    let (service, shared) = (context.service, context.shared);
    let added = to_the_end(async move {
        let added = service.add_token(add).await;
        shared.known.forget();
        added
    });
    match added.await?? {
        TokenAdded::Added => {
            let made = TokenMade {
                name,
                scopes: words,
                token,
            };
            Ok((StatusCode::CREATED, Json(made)))
        }
        TokenAdded::Taken => Err(ProblemResponse::ambiguous(format!(
            "there is a token {name} already: revoke it first, or choose another name"
        ))),
        TokenAdded::Owns { tasks } => Err(ProblemResponse::ambiguous(format!(
            "{name} has {tasks} tasks from before, which whoever gets this token would see and go on with: choose \
             another name, or say that it is for the same agent (`rotate`)"
        ))),
        TokenAdded::Full => Err(ProblemResponse::ambiguous(
            "there are too many tokens: revoke those that nobody uses",
        )),
    }
}

pub(super) async fn revoke<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(name): Path<String>,
) -> Result<Json<TokenRevoked>, ProblemResponse> {
    let name = named(name)?;
    let revoke = RevokeToken {
        name: name.clone(),
        by: caller.actor().to_string(),
    };
    let by = caller.actor();
    let (service, shared) = (context.service, context.shared);
    let revoked = to_the_end(async move {
        let name = revoke.name.clone();
        let revoked = service.revoke_token(revoke).await;
        // Before its messages are cancelled: what is still on its way finds this, or the row.
        shared.known.revoke(&name);
        if matches!(revoked, Ok(true)) {
            shared.streams.end(&name);
        }
        // Also where it was revoked before: the daemon may have died between the two.
        let revoked = revoked?;
        let stopped = if revoked || was_revoked(&service, &name).await? {
            service.stop_sender(of_token(name), by).await?
        } else {
            Stopped::default()
        };
        Ok::<_, LedgerError>((revoked, stopped))
    });
    let (revoked, stopped) = revoked.await??;
    if !revoked && stopped == Stopped::default() {
        return Err(ProblemResponse::not_found(format!(
            "there is no token {name} that could be revoked"
        )));
    }
    Ok(Json(TokenRevoked {
        name,
        cancelled: stopped.cancelled,
        running: stopped.running.iter().map(ToString::to_string).collect(),
        joined: stopped.joined.iter().map(ToString::to_string).collect(),
    }))
}

fn of_token(name: String) -> StopRequest {
    StopRequest {
        sender: name,
        channel: None,
        cause: StopCause::Revoked,
    }
}

async fn was_revoked<D: BridgeService>(service: &D, name: &str) -> Result<bool, LedgerError> {
    let tokens = service.ledger().read(|rows| rows.tokens()).await?;
    Ok(tokens.iter().any(|token| token.name == name))
}

/// A caller that hangs up must not leave a token that is revoked in the ledger and known in memory.
async fn to_the_end<T: Send + 'static>(
    act: impl Future<Output = T> + Send + 'static,
) -> Result<T, ProblemResponse> {
    let done = tokio::spawn(act).await;
    done.map_err(|_| ProblemResponse::bug())
}

fn named(name: String) -> Result<String, ProblemResponse> {
    if is_name(&name) {
        Ok(name)
    } else {
        Err(ProblemResponse::unprocessable(format!(
            "a token's name is 1 to {NAME_MAX_CHARS} letters, digits, dots, dashes and underscores, and begins with a letter or digit"
        )))
    }
}

fn scopes(words: &[String]) -> Result<Vec<Scope>, ProblemResponse> {
    let known = Scope::ALL.map(Scope::as_str).join(", ");
    let mut scopes = Vec::new();
    for word in words {
        let scope = Scope::from_word(word).ok_or_else(|| {
            ProblemResponse::unprocessable(format!("{word:?} is no scope; there are {known}"))
        })?;
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    if scopes.is_empty() {
        Err(ProblemResponse::unprocessable(format!(
            "a token without a scope is good for nothing; there are {known}"
        )))
    } else {
        Ok(scopes)
    }
}
