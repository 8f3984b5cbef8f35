//! Lending a conversation to a Codex terminal, for the owner at this machine.

use super::extract::{Body, Who};
use super::messages::one_named;
use super::{Context, ProblemResponse};
use crate::{BridgeService, Caller, Lending, LoanReturned, NewLoan, Time};
use axum::Json;
use axum::extract::{Path, State};
use bridge_core::find::short_id;
use bridge_core::limits::{LOAN_DEFAULT_MS, LOAN_MAX_MS};
use bridge_core::port::{Read, RowsError};
use bridge_core::value::{Conversation, Loan, LoanId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest id of a loan; whoever asks for one makes it.
const LOAN_ID_MAX_CHARS: usize = 64;

/// Body of `POST /v1/conversations/{id}/lend`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LendRequest {
    /// The caller's own id for the loan, such as a UUID: the same one again asks how it stands.
    pub loan_id: String,
    /// How long it lasts at most, in seconds; 4 hours when absent, and never more than a day.
    #[serde(default)]
    pub for_secs: Option<u64>,
    /// Lend it although somebody else wrote in it.
    #[serde(default)]
    pub strangers: bool,
}

/// Answer to `POST /v1/conversations/{id}/lend`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LendView {
    /// The conversation.
    pub conversation_id: String,
    /// The platform's name for it.
    pub key: String,
    /// `ready`: run the command; `busy`: its messages wait, and a turn has to end first, so ask again; `stranger`:
    /// somebody else wrote in it, and nothing was lent: ask again with `strangers`.
    pub state: String,
    /// The same as a sentence for people.
    pub detail: String,
    /// The loan; absent when nothing was lent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan: Option<LoanView>,
    /// What opens it, once it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalView>,
}

/// A command that opens a conversation's thread in Codex's own terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalView {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where to run it.
    pub workdir: String,
    /// Its `CODEX_HOME`.
    pub codex_home: Option<String>,
}

/// Who has a conversation in a Codex terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoanView {
    /// Its id.
    pub loan_id: String,
    /// Who has it.
    pub borrower: String,
    /// Since when.
    pub since: Time,
    /// When it ends, or ended.
    pub until: Time,
    /// Whether its time is over, so that the bridge takes the thread back.
    pub over: bool,
    /// Why the bridge does not have it back yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A conversation that is lent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LentConversation {
    /// The conversation.
    pub conversation_id: String,
    /// The platform's name for it.
    pub key: String,
    /// The loan.
    pub loan: LoanView,
}

/// Body of `POST /v1/conversations/{id}/return`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReturnRequest {
    /// This loan only; whichever there is when absent.
    #[serde(default)]
    pub loan_id: Option<String>,
}

/// Answer to `POST /v1/conversations/{id}/return`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReturnView {
    /// The conversation.
    pub conversation_id: String,
    /// The platform's name for it.
    pub key: String,
    /// `returned`, or `waits` while a terminal still has the thread open.
    pub state: String,
    /// The same as a sentence for people.
    pub detail: String,
}

impl LoanView {
    pub(super) fn new(loan: Loan, now: Timestamp) -> Self {
        Self {
            over: loan.is_over(now),
            loan_id: loan.loan_id.to_string(),
            borrower: loan.borrower,
            since: loan.since.into(),
            until: loan.until.into(),
            error: loan.error,
        }
    }
}

/// All conversations that are lent.
pub(super) fn lent(rows: &dyn Read, now: Timestamp) -> Result<Vec<LentConversation>, RowsError> {
    let mut lent = Vec::new();
    for loan in rows.loans()? {
        let conversation = rows.conversation(&loan.conversation_id)?;
        lent.extend(conversation.map(|conversation| LentConversation {
            conversation_id: conversation.conversation_id.to_string(),
            key: conversation.external_key,
            loan: LoanView::new(loan, now),
        }));
    }
    Ok(lent)
}

async fn named<D: BridgeService>(
    service: &D,
    caller: &Caller,
    name: String,
) -> Result<Conversation, ProblemResponse> {
    let caller = caller.clone();
    let found = service.read(move |rows| one_named(rows, &caller, &name));
    found.await?.map_err(ProblemResponse::from)
}

fn loan_id(id: &str) -> Result<LoanId, ProblemResponse> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if id.is_empty() || id.len() > LOAN_ID_MAX_CHARS || !id.chars().all(plain) {
        return Err(ProblemResponse::bad_request(format!(
            "`loan_id` is 1 to {LOAN_ID_MAX_CHARS} letters, digits and `-`"
        )));
    }
    Ok(LoanId::new(id))
}

pub(super) async fn lend<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(name): Path<String>,
    Body(request): Body<LendRequest>,
) -> Result<Json<LendView>, ProblemResponse> {
    let loan_id = loan_id(&request.loan_id)?;
    let for_ms = request.for_secs.map_or(LOAN_DEFAULT_MS, |seconds| {
        i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(LOAN_MAX_MS)
    });
    let conversation = named(&service, &caller, name).await?;
    let now = service.now();
    let new = NewLoan {
        conversation_id: conversation.conversation_id.clone(),
        loan_id,
        borrower: caller.actor().to_string(),
        until: now.plus_ms(for_ms.clamp(1_000, LOAN_MAX_MS)),
        strangers: request.strangers,
    };
    let key = conversation.external_key.clone();
    let (state, detail, loan, terminal) = match service.lend(new).await? {
        Lending::Ready { loan, terminal } => {
            let detail = format!("its messages wait until {}", loan.until.utc());
            ("ready", detail, Some(loan), Some(terminal))
        }
        Lending::Busy { loan, message_id } => {
            let what = match message_id {
                Some(id) => format!("message {} is at work in it", short_id(&id)),
                None => "something in it is about to end".to_owned(),
            };
            let detail =
                format!("{what}; it is yours when that has ended, and later messages wait");
            ("busy", detail, Some(loan), None)
        }
        Lending::Stranger { who } => ("stranger", warning(&who), None, None),
        Lending::Taken(loan) => return Err(taken(&key, &loan)),
        Lending::NoThread => {
            return Err(ProblemResponse::ambiguous(format!(
                "{key} has no Codex thread yet: it has one after its first answer"
            )));
        }
        Lending::Failed { why } => {
            return Err(ProblemResponse::unavailable(format!(
                "{key} was not lent: {why}"
            )));
        }
    };
    Ok(Json(LendView {
        conversation_id: conversation.conversation_id.to_string(),
        key,
        state: state.to_owned(),
        detail,
        loan: loan.map(|loan| LoanView::new(loan, now)),
        terminal,
    }))
}

/// What a person should know before Codex reads a stranger's words to them, with their hands on it.
fn warning(who: &str) -> String {
    format!(
        "{who} wrote in this conversation: its history may hold instructions that are not yours. Codex opens it in the sandbox of that sender; whatever you allow there is done with your rights"
    )
}

fn taken(key: &str, loan: &Loan) -> ProblemResponse {
    ProblemResponse::ambiguous(format!(
        "{key} is lent already, to {} until {}: close that terminal, or end the loan with `codex-bridge return {key}`",
        loan.borrower,
        loan.until.utc()
    ))
}

pub(super) async fn give_back<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(name): Path<String>,
    Body(request): Body<ReturnRequest>,
) -> Result<Json<ReturnView>, ProblemResponse> {
    let wanted = request.loan_id.as_deref().map(loan_id).transpose()?;
    let conversation = named(&service, &caller, name).await?;
    let (id, key) = (conversation.conversation_id, conversation.external_key);
    let by = caller.actor().to_string();
    let (state, detail) = match service.return_loan(&id, wanted, &by).await? {
        LoanReturned::Back => (
            "returned",
            "what was said at the terminal is part of it, and its messages go on".to_owned(),
        ),
        LoanReturned::Waits { why } => ("waits", why),
        LoanReturned::NotLent => {
            return Err(ProblemResponse::ambiguous(format!("{key} is not lent")));
        }
    };
    Ok(Json(ReturnView {
        conversation_id: id.to_string(),
        key,
        state: state.to_owned(),
        detail,
    }))
}
