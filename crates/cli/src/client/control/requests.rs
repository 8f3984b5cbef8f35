//! `requests`, `respond`, `approve` and `decline`: what Codex asks, from the command line.

use super::answered;
use crate::cli::{DecideArgs, RequestsArgs, RespondArgs};
use crate::client::api::{ApiClient, ClientError, checked};
use crate::client::ask::{AnswerBy, ApprovalView};
use crate::client::find::resolve;
use crate::client::output::{print_json, tell};
use crate::client::screen::stdout_width;
use anyhow::bail;
use bridge_core::limits::PAGE_MAX;
use bridge_daemon::term::{Paint, escape, escape_line};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Shortest beginning of a request's id that is looked for.
const BEGINNING_MIN: usize = 4;

pub(super) async fn list(
    client: &ApiClient,
    args: &RequestsArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let state = if args.all { "all" } else { "open" };
    let path = format!("/v1/requests?state={state}&limit={PAGE_MAX}");
    let page: Value = client.get(&path).await?;
    args.output.show(&page, ExitCode::SUCCESS, |page| {
        let requests: Vec<ApprovalView> =
            serde_json::from_value(page["requests"].clone()).unwrap_or_default();
        list_words(&requests, Paint::stdout(no_color))
    })
}

fn list_words(requests: &[ApprovalView], paint: Paint) -> String {
    if requests.is_empty() {
        return "Codex asks nothing".to_owned();
    }
    let now = crate::client::now_ms();
    let mut lines = Vec::new();
    for request in requests {
        if request.is_open() {
            lines.extend(request.lines(AnswerBy::Command, now, paint, stdout_width()));
        } else {
            let said = format!(
                "for {}: {}: {}",
                request.requester(),
                request.outcome(),
                request.headline
            );
            lines.push(paint.dim(&escape_line(&said)));
        }
    }
    lines.join("\n")
}

pub(super) async fn respond(client: &ApiClient, args: &RespondArgs) -> anyhow::Result<ExitCode> {
    let answers: Option<Value> = match args.answers.as_deref().map(serde_json::from_str) {
        Some(Err(error)) => bail!(
            "nothing was answered: --answers is no JSON ({error}); give an object, '{{\"NAME\":\"text\"}}' for example"
        ),
        Some(Ok(answers)) => Some(answers),
        None => None,
    };
    let mut body = json!({ "request_id": args.request, "decision": args.decision.as_str() });
    if let Some(answers) = answers {
        body["answers"] = answers;
    }
    let task = resolve(client, &args.task.id).await?;
    let done = client.act_on_task(task.id(), "respond", Some(&body)).await;
    answered(done, args.output, |_: &Value| {
        let said = format!("{}: {}", args.request, decided(args.decision.as_str()));
        (escape(&said).into_owned(), ExitCode::SUCCESS)
    })
}

pub(super) async fn decide(
    client: &ApiClient,
    args: &DecideArgs,
    decision: &str,
) -> anyhow::Result<ExitCode> {
    let request = match find(client, &args.code).await? {
        Ok(request) => request,
        Err(why) => bail!("nothing was answered: {why}"),
    };
    match client.decide(&request.request_id, decision, None).await {
        Ok(answer) if args.output.json => print_json(&answer, ExitCode::SUCCESS),
        Ok(_) => {
            let code = request.handle();
            let said = format!(
                "{code}: {}, for {}: {}",
                decided(decision),
                request.requester(),
                request.headline
            );
            tell(&escape_line(&said), ExitCode::SUCCESS)
        }
        Err(error) => Err(error.into()),
    }
}

fn decided(decision: &str) -> &'static str {
    match decision {
        "accept" => "accepted",
        "acceptForSession" => "accepted for the session",
        "cancel" => "declined, and the turn ends",
        _ => "declined",
    }
}

/// The open request that a code or the beginning of an id means, or why there is none. For a closed one that is who
/// decided.
async fn find(client: &ApiClient, code: &str) -> Result<Result<ApprovalView, String>, ClientError> {
    let code = checked(code)?.to_ascii_lowercase();
    if code.len() < BEGINNING_MIN {
        return Ok(Err(format!(
            "{code:?} is too short for a code; `codex-bridge requests` shows them"
        )));
    }
    let is_it = |request: &ApprovalView| request.request_id.to_ascii_lowercase().starts_with(&code);
    let mut open = client.open_requests().await?;
    open.retain(is_it);
    if open.len() > 1 {
        return Ok(Err(format!(
            "{} open requests begin with {code}; give more of the id, `codex-bridge requests --json` shows it",
            open.len()
        )));
    }
    if let Some(request) = open.pop() {
        return Ok(Ok(request));
    }
    let past = client.newest_requests().await?;
    Ok(Err(match past.iter().find(|request| is_it(request)) {
        Some(request) => format!("{}; only the first answer counts", request.outcome()),
        None => {
            format!("nothing with the code {code} is asked; `codex-bridge requests` shows what is")
        }
    }))
}
