//! The console in Debian's chromium: what it loads, how soon it lists, paints and shows, and what the daemon has resident
//! with many open pages. The browser's side is `crates/front/console-tests/figures.mjs`.

use crate::bars;
use crate::ground::Ground;
use crate::section::{Column, Plot, Section, Table, Whose};
use crate::stage::served::Served;
use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// Conversations that are written to at once while many become known.
const AT_ONCE: usize = 50;
const ANSWER: &str = "here";
/// All of the browser's measurements together.
const PATIENCE: Duration = Duration::from_secs(900);
const KIB_PER_MIB: f64 = 1_024.0;
const BYTES_PER_KB: f64 = 1_000.0;

const WORDS: &str = "Debian's chromium, headless, over the built daemon. The phone profile is a viewport of 390 x 844 and a \
     processor slowed down to a quarter; cold means a browser that has nothing in its cache, from the navigation until the \
     whole list is known and painted; the median of some rounds. An event's commit is the time in its row; the page shows \
     it when a frame with its text was painted. The diff is timed from the answer's last byte to the frame that shows its \
     beginning. Each open page has a browser profile and an event stream of its own, and all of them show a new message.";

/// What the browser's side prints.
#[derive(Debug, Deserialize)]
struct Figures {
    all_gz_bytes: f64,
    first_visit_gz_bytes: f64,
    list: List,
    diff: Diff,
    commit_to_visible: Visible,
    pages: Pages,
}

#[derive(Debug, Deserialize)]
struct List {
    conversations: usize,
    first_screenful_ms: f64,
    list_complete_ms: f64,
}

#[derive(Debug, Deserialize)]
struct Diff {
    lines: usize,
    painted_ms: f64,
    painted_phone_ms: f64,
}

#[derive(Debug, Deserialize)]
struct Visible {
    steps: usize,
    p50_ms: f64,
    p95_ms: f64,
}

#[derive(Debug, Deserialize)]
struct Pages {
    open: usize,
    seen_by_all_ms: f64,
    daemon_kib_before: f64,
    daemon_kib: f64,
}

/// Answer to `codex-bridge console --json`.
#[derive(Debug, Deserialize)]
struct Login {
    url: String,
    code: String,
}

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let kit = ground.console_kit.as_deref();
    let kit = kit.context("the part console needs --console-kit")?;
    let served = Served::start(ground, AT_ONCE).await?;
    let conversations: Vec<String> = (0..ground.plan.known)
        .map(|number| format!("known-{number}"))
        .collect();
    for some in conversations.chunks(AT_ONCE) {
        served.ask(some, ANSWER).await?;
    }
    let login: Login = output(
        Command::new(&ground.bridge)
            .arg("--state-dir")
            .arg(served.daemon.state())
            .args(["console", "--json"]),
    )
    .await?;
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../front/console-tests/figures.mjs"
    );
    let figures = output(
        Command::new(node_of(kit)?)
            .arg(script)
            .env("CONSOLE_KIT", kit)
            .env("CONSOLE_URL", format!("{}#login={}", login.url, login.code))
            .env("CONSOLE_PID", served.daemon.pid()?.to_string())
            .env("CONSOLE_CONVERSATIONS", ground.plan.known.to_string()),
    )
    .await?;
    served.stop().await?;
    Ok(section(&figures))
}

fn node_of(kit: &Path) -> anyhow::Result<PathBuf> {
    let modules = std::fs::read_dir(kit.join("node_modules"))?;
    let mut programs = modules.flatten().map(|entry| entry.path().join("bin/node"));
    let node = programs.find(|path| path.is_file());
    node.context("no Node.js in the console's kit")
}

/// Runs a command to its end and reads the JSON that it prints.
async fn output<T: DeserializeOwned>(command: &mut Command) -> anyhow::Result<T> {
    let command = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let ended = timeout(PATIENCE, command.output()).await;
    let ended = ended.with_context(|| format!("{command:?} takes too long"))??;
    ensure!(
        ended.status.success(),
        "{command:?} ended with {}",
        ended.status
    );
    let printed = String::from_utf8_lossy(&ended.stdout);
    serde_json::from_str(&printed).with_context(|| format!("understand {printed:?}"))
}

fn section(figures: &Figures) -> Section {
    let Figures {
        list,
        diff,
        commit_to_visible: visible,
        pages,
        ..
    } = figures;
    let all_kb = figures.all_gz_bytes / BYTES_PER_KB;
    let (before, with) = (
        pages.daemon_kib_before / KIB_PER_MIB,
        pages.daemon_kib / KIB_PER_MIB,
    );
    let rows = [
        ("all files, gzip, kB".to_owned(), all_kb),
        (
            "of them for the inbox, kB".to_owned(),
            figures.first_visit_gz_bytes / BYTES_PER_KB,
        ),
        (
            format!(
                "first screenful of {} conversations, ms",
                list.conversations
            ),
            list.first_screenful_ms,
        ),
        ("the whole list, ms".to_owned(), list.list_complete_ms),
        (
            format!(
                "commit to text on the page, {} steps, p50, ms",
                visible.steps
            ),
            visible.p50_ms,
        ),
        ("the same, p95, ms".to_owned(), visible.p95_ms),
        (format!("diff of {} lines, ms", diff.lines), diff.painted_ms),
        ("the same on a phone, ms".to_owned(), diff.painted_phone_ms),
        (
            format!("a new message on {} open pages, ms", pages.open),
            pages.seen_by_all_ms,
        ),
        ("daemon before they were opened, MiB".to_owned(), before),
        ("daemon with them, MiB".to_owned(), with),
    ];
    let column = |label: String, value| Column {
        label,
        value,
        whose: Whose::Ours,
    };
    Section {
        title: "The console".to_owned(),
        words: vec![WORDS.to_owned()],
        tables: vec![Table {
            title: "The console in a browser".to_owned(),
            head: ["what", "measured"].map(str::to_owned).to_vec(),
            rows: rows
                .map(|(what, value)| vec![what, format!("{value:.1}")])
                .to_vec(),
        }],
        plots: vec![Plot::Columns {
            file: "console.svg",
            title: "Memory of the daemon with open pages".to_owned(),
            unit: "MiB",
            rows: vec![
                column("before".to_owned(), before),
                column(format!("{} live pages", pages.open), with),
            ],
            bar: None,
        }],
        bars: vec![
            bars::console_size(all_kb),
            bars::console_list(list.list_complete_ms, list.conversations),
            bars::console_shown(visible.p95_ms),
            bars::console_diff(diff.painted_ms),
        ],
        ..Section::default()
    }
}
