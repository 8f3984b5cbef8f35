//! Who calls: tokens, the workspace that a caller claims to be, and who may talk to whom.

use super::ground::Ground;
use super::ids::WorkspaceId;
use super::options::Edition;
use super::wire::{Answer, Call};

/// Generations that the family tree is followed up.
const GENERATIONS_MOST: usize = 32;

/// What the `Authorization` header proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearer {
    Missing,
    Admin,
    Owner(WorkspaceId),
    Unknown,
}

pub(super) const MISSING: &str = "missing workspace auth token";
const NO_CALLER: &str = "missing caller auth token";
pub(super) const INVALID: &str = "invalid workspace auth token";

/// The token, when the header has the one spelling that counts.
pub(super) fn token_of(call: &Call) -> Option<&str> {
    let token = call.header("authorization")?.strip_prefix("Bearer ")?;
    (!token.is_empty()).then_some(token)
}

impl Ground {
    pub(super) fn bearer(&mut self, call: &Call) -> Bearer {
        let Some(text) = token_of(call) else {
            return Bearer::Missing;
        };
        if text == self.options.admin_token {
            return Bearer::Admin;
        }
        let now = self.clock.now();
        match self.tokens.get_mut(text) {
            Some(token) => {
                token.used = Some(now);
                Bearer::Owner(token.workspace)
            }
            None => Bearer::Unknown,
        }
    }

    /// Lets a call of a workspace's own data in. A database that is down looks like a wrong token, as on the real one.
    pub(super) fn admit(&mut self, call: &Call) -> Result<WorkspaceId, Answer> {
        let id = WorkspaceId::read(&call.place.id);
        match (self.bearer(call), id) {
            (Bearer::Missing, _) => Err(Answer::error(401, MISSING)),
            (Bearer::Admin, Some(id)) if self.offices.contains_key(&id) => Ok(id),
            (Bearer::Admin, _) => Err(Answer::error(404, "workspace not found")),
            (Bearer::Owner(owner), Some(id))
                if owner == id && self.database && !self.is_removed(id) =>
            {
                Ok(id)
            }
            (Bearer::Owner(_) | Bearer::Unknown, _) => Err(Answer::error(401, INVALID)),
        }
    }

    pub(super) fn admit_admin(&mut self, call: &Call) -> Result<(), Answer> {
        match self.bearer(call) {
            Bearer::Admin => Ok(()),
            Bearer::Missing => Err(Answer::error(401, MISSING)),
            Bearer::Owner(_) | Bearer::Unknown => Err(Answer::error(401, INVALID)),
        }
    }

    /// The rule of the registry: whoever has live tokens must show one, whoever has none needs none.
    pub(super) fn admit_to_registry(&mut self, call: &Call, id: WorkspaceId) -> Result<(), Answer> {
        if self.offices.contains_key(&id) && !self.has_token(id) {
            return Ok(());
        }
        match self.bearer(call) {
            Bearer::Owner(owner) if owner == id => Ok(()),
            Bearer::Missing => Err(Answer::error(401, MISSING)),
            Bearer::Owner(_) | Bearer::Unknown | Bearer::Admin => Err(Answer::error(401, INVALID)),
        }
    }

    /// The workspace that sends a message; none for the canvas.
    pub(super) fn caller(&mut self, call: &Call) -> Result<Option<WorkspaceId>, Answer> {
        let claim = call.header("x-workspace-id").map(str::to_owned);
        match (self.bearer(call), claim) {
            (Bearer::Missing, None) if self.edition == Edition::August => {
                Err(Answer::error(401, NO_CALLER))
            }
            (Bearer::Missing | Bearer::Admin, None) | (Bearer::Admin, Some(_)) => Ok(None),
            (Bearer::Missing, Some(_)) => Err(Answer::error(401, NO_CALLER)),
            (Bearer::Owner(owner), None) => Ok(Some(owner)),
            (Bearer::Owner(owner), Some(claim)) if claim == owner.to_string() => Ok(Some(owner)),
            (Bearer::Owner(_) | Bearer::Unknown, _) => {
                Err(Answer::error(401, "invalid caller auth token"))
            }
        }
    }

    pub(super) fn is_removed(&self, id: WorkspaceId) -> bool {
        self.offices
            .get(&id)
            .is_some_and(|office| office.removed_at.is_some())
    }

    /// Itself, siblings under one parent, ancestors and descendants.
    pub(super) fn may_talk(&self, one: WorkspaceId, other: WorkspaceId) -> bool {
        let (Some(a), Some(b)) = (self.offices.get(&one), self.offices.get(&other)) else {
            return false;
        };
        let siblings = a.parent.is_some() && a.parent == b.parent;
        one == other || siblings || self.is_above(one, other) || self.is_above(other, one)
    }

    fn is_above(&self, above: WorkspaceId, below: WorkspaceId) -> bool {
        let mut at = self.offices.get(&below).and_then(|office| office.parent);
        for _ in 0..GENERATIONS_MOST {
            match at {
                Some(parent) if parent == above => return true,
                Some(parent) => at = self.offices.get(&parent).and_then(|office| office.parent),
                None => return false,
            }
        }
        false
    }
}
