//! `show`, `why` and `status`: what the ledger knows, for people and for programs.

use super::api::{ApiClient, ClientError};
use crate::term::{Paint, escape, escape_line, when};
use bridge_front::{MessageView, StatusView};
use serde::Serialize;
use std::process::ExitCode;

pub(crate) async fn show(client: &ApiClient, id: &str, json: bool, no_color: bool) -> ExitCode {
    finish(
        client,
        client.message(id).await,
        json,
        no_color,
        print_message,
    )
}

pub(crate) async fn why(client: &ApiClient, id: &str, json: bool, no_color: bool) -> ExitCode {
    finish(client, client.message(id).await, json, no_color, print_why)
}

pub(crate) async fn status(client: &ApiClient, json: bool, no_color: bool) -> ExitCode {
    finish(client, client.status().await, json, no_color, print_status)
}

fn finish<T: Serialize>(
    client: &ApiClient,
    result: Result<T, ClientError>,
    json: bool,
    no_color: bool,
    print: impl FnOnce(&T, Paint),
) -> ExitCode {
    match result {
        Ok(found) if json => print_json(&found),
        Ok(found) => print(&found, Paint::stdout(no_color)),
        Err(error) => {
            // That no daemon runs says more than that its socket is silent.
            let error = client.expect_daemon().err().unwrap_or(error);
            eprintln!("{}", escape(&error.to_string()));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints a value for programs.
pub(crate) fn print_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(json) => println!("{json}"),
        Err(error) => eprintln!("this can't be written as JSON: {error}"),
    }
}

fn print_message(message: &MessageView, paint: Paint) {
    let head = |name: &str, text: &str| println!("{:<14}{}", paint.dim(name), escape_line(text));
    head("message", &message.message_id);
    head("conversation", &message.conversation);
    head(
        "from",
        &format!("{} on {}", message.sender, message.channel),
    );
    head("received", &when(message.received_at));
    head("state", &message.state);
    if let Some(thread) = &message.thread_id {
        head("codex thread", thread);
    }
    for request in &message.requests {
        head(
            "codex asked",
            &format!("{} ({})", request.headline, request.state),
        );
    }
    println!("\n{}", escape(&message.text));
    match &message.answer {
        Some(answer) => {
            let source = match answer.source.as_str() {
                "harvested" => ", read from Codex's history after a restart",
                _ => "",
            };
            let title = format!("answer, {}{source}", when(answer.created_at));
            println!("\n{}\n\n{}", paint.bold(&title), escape(&answer.text));
        }
        None => println!(
            "\n{} {}",
            paint.bold("no answer:"),
            escape(&message.why.now)
        ),
    }
}

fn print_why(message: &MessageView, paint: Paint) {
    println!("{} is {}", paint.bold(&message.message_id), message.state);
    println!("  now:  {}", escape(&message.why.now));
    println!("  next: {}", escape(&message.why.next));
    if let Some(failure) = &message.failure {
        println!(
            "  last failure ({}): {}",
            failure.class,
            escape(&failure.reason)
        );
    }
}

fn print_status(status: &StatusView, paint: Paint) {
    let health = &status.health;
    let ready = match health.ready {
        true => paint.green("ready"),
        false => paint.yellow("not ready"),
    };
    println!(
        "{ready}: codex-bridge {} (pid {})",
        health.version, health.pid
    );
    println!("  {}", escape(&health.codex));
    if status.counts.is_empty() {
        println!("  no messages yet");
    }
    for (state, count) in &status.counts {
        println!("  {state:<10} {count}");
    }
}
