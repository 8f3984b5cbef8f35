//! `requests`, `respond`, `approve` and `decline`: what Codex asks, from the command line.

use super::{answered, refused};
use crate::cli::{DecideArgs, RequestsArgs, RespondArgs};
use crate::client::api::{ApiClient, ClientError, checked};
use crate::client::ask::{Question, Reader};
use crate::client::dead::failed;
use crate::client::show::{finish_value, print};
use bridge_core::limits::PAGE_MAX;
use bridge_daemon::term::{self, Paint, escape, escape_line};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Shortest beginning of a request's id that is looked for.
const BEGINNING_MIN: usize = 4;

pub(super) async fn list(client: &ApiClient, args: &RequestsArgs, no_color: bool) -> ExitCode {
    let state = if args.all { "all" } else { "open" };
    let found = client
        .get(&format!("/v1/requests?state={state}&limit={PAGE_MAX}"))
        .await;
    let paint = Paint::stdout(no_color);
    finish_value(client, found, args.json, |page| {
        let questions: Vec<Question> =
            serde_json::from_value(page["requests"].clone()).unwrap_or_default();
        list_words(&questions, paint)
    })
}

fn list_words(questions: &[Question], paint: Paint) -> String {
    if questions.is_empty() {
        return "Codex asks nothing".to_owned();
    }
    let now = super::task::now_ms();
    let mut lines = Vec::new();
    for question in questions {
        if question.is_open() {
            lines.extend(question.lines(Reader::Elsewhere, now, paint, None))
        } else {
            let said = format!(
                "for {}: {}: {}",
                question.requester(),
                question.outcome(),
                question.headline
            );
            lines.push(paint.dim(&escape_line(&said)));
        }
    }
    lines.join("\n")
}

pub(super) async fn respond(client: &ApiClient, args: &RespondArgs) -> ExitCode {
    let answers: Option<Value> = match args
        .answers
        .as_deref()
        .map(serde_json::from_str)
        .transpose()
    {
        Ok(answers) => answers,
        Err(error) => {
            term::complain(&escape(&format!(
                "nothing was answered: --answers is no JSON ({error}); give an object, '{{\"NAME\":\"text\"}}' for example"
            )));
            return ExitCode::FAILURE;
        }
    };
    let mut body = json!({ "request_id": args.request, "decision": args.decision.as_str() });
    if let Some(answers) = answers {
        body["answers"] = answers;
    }
    let done = match checked(&args.id) {
        Ok(id) => {
            client
                .post(&format!("/v1/tasks/{id}/respond"), Some(&body), None)
                .await
        }
        Err(error) => Err(error),
    };
    answered(client, done, args.json, |_| {
        let said = format!("{}: {}", args.request, decided(args.decision.as_str()));
        (escape(&said).into_owned(), ExitCode::SUCCESS)
    })
}

pub(super) async fn decide(client: &ApiClient, args: &DecideArgs, decision: &str) -> ExitCode {
    let question = match find(client, &args.code).await {
        Ok(Found::One(question)) => question,
        Ok(Found::Not(why)) => {
            if args.json {
                let problem = json!({ "success": false, "error": why });
                return crate::client::show::print_json(&problem, ExitCode::FAILURE);
            }
            term::complain(&escape(&format!("nothing was answered: {why}")));
            return ExitCode::FAILURE;
        }
        Err(error) => return failed(client, &error),
    };
    match client.decide(&question.request_id, decision, None).await {
        Ok(answer) if args.json => crate::client::show::print_json(&answer, ExitCode::SUCCESS),
        Ok(_) => {
            let code = question.handle();
            let said = format!(
                "{code}: {}, for {}: {}",
                decided(decision),
                question.requester(),
                question.headline
            );
            print(&escape_line(&said), ExitCode::SUCCESS)
        }
        Err(error) => refused(client, &error, args.json),
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

enum Found {
    One(Box<Question>),
    Not(String),
}

/// The open question that a code or the beginning of an id means. A closed one says who decided.
async fn find(client: &ApiClient, code: &str) -> Result<Found, ClientError> {
    let code = checked(code)?.to_ascii_lowercase();
    if code.len() < BEGINNING_MIN {
        return Ok(Found::Not(format!(
            "{code:?} is too short for a code; `codex-bridge requests` shows them"
        )));
    }
    let is_it = |question: &Question| question.request_id.to_ascii_lowercase().starts_with(&code);
    let mut open = client.open_requests().await?;
    open.retain(is_it);
    if open.len() > 1 {
        return Ok(Found::Not(format!(
            "{} open requests begin with {code}; give more of the id, `codex-bridge requests --json` shows it",
            open.len()
        )));
    }
    if let Some(question) = open.pop() {
        return Ok(Found::One(Box::new(question)));
    }
    let past = client.newest_requests().await?;
    Ok(Found::Not(
        match past.iter().find(|question| is_it(question)) {
            Some(question) => format!("{}; only the first answer counts", question.outcome()),
            None => format!(
                "nothing with the code {code} is asked; `codex-bridge requests` shows what is"
            ),
        },
    ))
}
