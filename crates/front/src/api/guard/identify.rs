//! Who calls: the owner of this machine through `api.sock`, or whoever holds a token (threats 1 and 32).
//!
//! A token is known by its hash alone. What is presented is hashed first and then compared with every candidate in
//! constant time, so that how long an answer takes says nothing about any of them.

use super::{Door, Gate};
use crate::api::ProblemResponse;
use crate::api::limits::TOKEN_MAX_BYTES;
use crate::control::{Caller, Grants, Scope, Via};
use crate::{Desk, TokenHash};
use axum::http::{HeaderMap, header};

/// Who calls.
#[derive(Clone, Debug)]
pub(in crate::api) enum Identity {
    /// We know them.
    Known(Caller),
    /// We don't; why.
    Nobody(&'static str),
}

/// One token that would be accepted.
pub(super) struct Candidate {
    pub(super) hash: TokenHash,
    pub(super) caller: Caller,
}

impl<D: Desk> Gate<D> {
    /// Finds out who calls. A ledger that can't be read knows no tokens but the owner's, which is in a file.
    pub(super) async fn identify(&self, headers: &HeaderMap) -> Result<Identity, ProblemResponse> {
        match &self.door {
            Door::Local => Ok(Identity::Known(Caller::local_owner(Via::Cli))),
            Door::Tcp { .. } => match bearer(headers) {
                Ok(token) => self.holder(token).await,
                Err(why) => Ok(Identity::Nobody(why)),
            },
        }
    }

    async fn holder(&self, token: &str) -> Result<Identity, ProblemResponse> {
        let presented = TokenHash::of(token);
        let candidates = self.candidates().await?;
        match among(&presented, candidates) {
            Some(caller) => Ok(Identity::Known(caller)),
            None => Ok(Identity::Nobody(
                "the token is not valid: it was never made, or it was revoked",
            )),
        }
    }

    async fn candidates(&self) -> Result<Vec<Candidate>, ProblemResponse> {
        let owner = self.context.shared.owner.clone();
        Ok(owner.map(owner_candidate).into_iter().collect())
    }
}

/// The holder of the token in the state directory: everything but being at this machine.
fn owner_candidate(hash: TokenHash) -> Candidate {
    Candidate {
        hash,
        caller: Caller {
            name: "owner token".to_owned(),
            via: Via::Http,
            grants: Grants::Scopes(Scope::ALL.to_vec()),
        },
    }
}

/// The candidate that has this hash. All are looked at, whichever fits.
fn among(presented: &TokenHash, candidates: Vec<Candidate>) -> Option<Caller> {
    let mut found = None;
    for candidate in candidates {
        if presented.is(&candidate.hash) {
            found = Some(candidate.caller);
        }
    }
    found
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(
            "a token is needed: send it once, as `Authorization: Bearer TOKEN`; the owner's is in the file `token` of the state directory",
        );
    };
    let unreadable = "the Authorization header must be `Bearer TOKEN`";
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or(unreadable)?;
    let token = token.trim();
    match scheme.eq_ignore_ascii_case("bearer")
        && !token.is_empty()
        && token.len() <= TOKEN_MAX_BYTES
    {
        true => Ok(token),
        false => Err(unreadable),
    }
}
