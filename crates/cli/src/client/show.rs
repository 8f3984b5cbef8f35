//! `show`, `why`, `status` and `reload`: what the daemon says about a message, about itself and its configuration.

use super::api::ApiClient;
use super::message::message_words;
use super::output::exit_code;
use crate::cli::{IdArgs, OutputArgs};
use bridge_daemon::term::{Paint, escape, size, span};
use bridge_front::{ChannelView, HealthView, ReloadView, StatusView, StoryView, SummaryView};
use std::process::ExitCode;

pub(crate) async fn show(
    client: &ApiClient,
    args: &IdArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let story = client.message(&args.id).await?;
    let words = |story: &StoryView| message_words(story, Paint::stdout(no_color));
    args.output.show(&story, ExitCode::SUCCESS, words)
}

pub(crate) async fn why(
    client: &ApiClient,
    args: &IdArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let story = client.message(&args.id).await?;
    let words = |story: &StoryView| why_words(story, Paint::stdout(no_color));
    args.output.show(&story, ExitCode::SUCCESS, words)
}

fn why_words(story: &StoryView, paint: Paint) -> String {
    let message = &story.message;
    let mut words = format!(
        "{} is {}\n  now:  {}\n  next: {}\n",
        paint.bold(&message.message_id),
        message.state,
        escape(&message.why.now),
        escape(&message.why.next)
    );
    if let Some(failure) = &message.failure {
        words.push_str(&format!(
            "  last failure ({}): {}",
            failure.class,
            escape(&failure.reason)
        ));
    }
    words
}

/// Lets the daemon read its configuration again; fails where the file can't be used.
pub(crate) async fn reload(client: &ApiClient, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let view = client.reload().await?;
    output.show(&view, exit_code(view.ok), |view| {
        escape(&reload_words(view)).into_owned()
    })
}

fn reload_words(view: &ReloadView) -> String {
    let mut words = match (&view.error, view.changed.as_slice()) {
        (Some(error), _) => {
            format!("nothing changed, the old configuration is in force: {error}\n")
        }
        (None, []) => "read again; nothing is different\n".to_owned(),
        (None, keys) => format!("in force from now on: {}\n", keys.join(" ")),
    };
    if !view.needs_restart.is_empty() {
        words.push_str(&format!(
            "restart the daemon for: {}\n",
            view.needs_restart.join(" ")
        ));
    }
    for warning in &view.warnings {
        words.push_str(&format!("warning: {warning}\n"));
    }
    words
}

pub(crate) async fn status(
    client: &ApiClient,
    output: OutputArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let status = client.status().await?;
    let paint = Paint::stdout(no_color);
    output.show(&status, ExitCode::SUCCESS, |status| {
        status_words(status, paint)
    })
}

fn status_words(status: &StatusView, paint: Paint) -> String {
    let health = &status.health;
    let ready = if health.ready {
        paint.green("ready")
    } else {
        paint.yellow("not ready")
    };
    let mut words = format!(
        "{ready}: codex-bridge {} (pid {})\n  {}\n",
        health.version,
        health.pid,
        escape(&health.codex)
    );
    if !health.ready && health.detail != health.codex {
        words.push_str(&format!("  {}\n", escape(&health.detail)));
    }
    if let Some(reload) = &health.reload {
        words.push_str(&reload_line(reload, paint));
    }
    for channel in &health.channels {
        words.push_str(&channel_line(channel, paint));
    }
    if status.counts.is_empty() {
        words.push_str("  no messages yet\n");
    }
    for (name, count, remark) in places(status) {
        if count > 0 {
            let line = format!("  {name:<16} {count:>6}  {remark}");
            words.push_str(&format!("{}\n", line.trim_end()));
        }
    }
    for (name, count, remark) in [
        (
            "suspects",
            status.suspects,
            "Codex died under them; tried one at a time",
        ),
        (
            "replies retried",
            status.replies_retried,
            "a platform did not take them yet",
        ),
    ] {
        if count > 0 {
            let line = format!("  {name:<16} {count:>6}  {remark}");
            words.push_str(&format!("{}\n", paint.yellow(&line)));
        }
    }
    if let Some(bytes) = status.ledger_bytes {
        words.push_str(&format!("  ledger {}{}\n", size(bytes), vitals(health)));
    }
    words
}

/// A channel that receives needs no attention, one that is parked needs a person.
fn channel_line(channel: &ChannelView, paint: Paint) -> String {
    let state = match channel.state.as_str() {
        "receiving" => paint.green(&channel.state),
        _ => paint.yellow(&escape(&channel.state)),
    };
    let name = escape(&channel.channel);
    format!("  {name} {state}: {}\n", escape(&channel.detail))
}

/// How the ledger is beside its size.
fn vitals(health: &HealthView) -> String {
    let Some(ledger) = &health.ledger else {
        return String::new();
    };
    let free = match ledger.free_bytes {
        Some(free) => format!(", {} free on its disk", size(free)),
        None => String::new(),
    };
    format!(
        ", {}, {} of log{free}",
        ledger.health,
        size(ledger.log_bytes)
    )
}

/// What the last reading of the configuration left to do; nothing to say where it went well.
fn reload_line(reload: &ReloadView, paint: Paint) -> String {
    let line = match (&reload.error, reload.needs_restart.as_slice()) {
        (None, []) => return String::new(),
        (None, keys) => format!("restart the daemon for {}", keys.join(" ")),
        (Some(error), _) => format!(
            "the configuration on disk can't be used, the old one is in force: {}",
            escape(error)
        ),
    };
    format!("  {}\n", paint.yellow(&line))
}

/// Where messages are, in the order of their life, with what a person should know about them.
fn places(status: &StatusView) -> [(&'static str, u64, String); 8] {
    let SummaryView {
        waiting,
        working,
        unclear,
        waiting_for_you,
        sending,
        answered,
        answered_24h,
        dead,
        cancelled,
    } = status.summary;
    let oldest = status.oldest_unanswered_ms.map_or_else(String::new, |ms| {
        format!("the oldest unanswered came {} ago", span(ms))
    });
    let here = |place: u64, before: u64| {
        if place > 0 && before == 0 {
            oldest.clone()
        } else {
            String::new()
        }
    };
    [
        ("waiting", waiting, here(waiting, 0)),
        ("working", working, here(working, waiting)),
        (
            "unclear",
            unclear,
            "their turns were lost from sight and are looked for".to_owned(),
        ),
        (
            "waiting for you",
            waiting_for_you,
            "see `codex-bridge dead list` and `codex-bridge doctor`".to_owned(),
        ),
        ("being delivered", sending, String::new()),
        (
            "answered",
            answered,
            format!("{answered_24h} in the last 24 h"),
        ),
        (
            "dead letters",
            dead,
            "`codex-bridge dead list` shows them and what to do".to_owned(),
        ),
        ("stopped", cancelled, String::new()),
    ]
}
