//! The console in Debian's chromium: what it loads, how soon it lists, paints and shows, and what the daemon has resident
//! with many open pages. The browser's side is `crates/front/console-tests/figures.mjs`.

use crate::bars;
use crate::ground::Ground;
use crate::section::{Column, Plot, Ranked, Section, Table, Whose};
use crate::stage::PATIENCE;
use crate::stage::process::Reading;
use crate::stage::served::Served;
use crate::stats::{Spread, median};
use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::json;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// Conversations that are written to at once while many become known.
const AT_ONCE: usize = 50;
const ANSWER: &str = "here";
/// All of the browser's measurements together.
const BROWSER_PATIENCE: Duration = Duration::from_secs(600);

const WORDS: &str = "Debian's chromium, headless, over the built daemon. The phone profile is a viewport of 390 x 844 and a \
     processor slowed down to a quarter; cold means a browser that has nothing in its cache, from the navigation to the \
     list of all conversations. An event's commit is the time in its row; the page shows it when its text is in the \
     document. The diff is of 10,000 lines, from its rows being there to the frame that shows it. Open pages have a browser \
     profile and an event stream each.";

/// What the browser's side prints.
#[derive(Debug, Deserialize)]
struct Figures {
    all_kb: f64,
    first_kb: f64,
    list_ms: Vec<f64>,
    shown_ms: Vec<f64>,
    diff_ms: Vec<f64>,
}

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let served = Served::start(ground, AT_ONCE).await?;
    let conversations: Vec<String> = (0..ground.plan.known)
        .map(|number| format!("known-{number}"))
        .collect();
    for some in conversations.chunks(AT_ONCE) {
        served.ask(some, ANSWER).await?;
    }
    let browser = Browser::new(ground, &served)?;
    let figures = browser.figures(ground.plan.shown).await?;
    let before = Reading::of(&[served.daemon.pid()?])?;
    let open = browser.pages(ground.plan.pages).await?;
    let with = Reading::of(&[served.daemon.pid()?])?;
    open.close().await?;
    served.stop().await?;
    section(ground, &figures, (before, with))
}

/// Starts the browser's side.
struct Browser {
    node: PathBuf,
    kit: PathBuf,
    script: PathBuf,
    /// How it runs commands of ours.
    command: String,
}

impl Browser {
    fn new(ground: &Ground, served: &Served) -> anyhow::Result<Self> {
        let kit = ground.console_kit.clone();
        let kit = kit.context("the part console needs --console-kit")?;
        let modules = std::fs::read_dir(kit.join("node_modules"))?;
        let node = modules
            .flatten()
            .map(|entry| entry.path().join("bin/node"))
            .find(|path| path.is_file());
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../front/console-tests");
        let argv = [
            ground.bridge.as_os_str(),
            "--state-dir".as_ref(),
            served.daemon.state().as_os_str(),
        ];
        let argv: Vec<_> = argv.map(|part| part.to_string_lossy()).to_vec();
        Ok(Self {
            node: node.context("no Node.js in the console's kit")?,
            kit,
            script: PathBuf::from(root).join("figures.mjs"),
            command: json!({"argv": argv, "env": {}}).to_string(),
        })
    }

    fn start(&self, args: &[String]) -> Command {
        let mut command = Command::new(&self.node);
        command
            .arg(&self.script)
            .args(args)
            .env("CONSOLE_KIT", &self.kit)
            .env("CONSOLE_COMMAND", &self.command)
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        command
    }

    async fn figures(&self, shown: usize) -> anyhow::Result<Figures> {
        let args = ["measure".to_owned(), shown.to_string()];
        let ended = self.start(&args).stdin(Stdio::null()).output();
        let ended = timeout(BROWSER_PATIENCE, ended).await;
        let ended = ended.context("the browser takes too long")??;
        ensure!(ended.status.success(), "the browser's side failed");
        let said = String::from_utf8_lossy(&ended.stdout);
        let last = said.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("understand {last:?}"))
    }

    /// Opens so many pages and waits until all of them are live.
    async fn pages(&self, pages: usize) -> anyhow::Result<OpenPages> {
        let args = ["pages".to_owned(), pages.to_string()];
        let mut command = self.start(&args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let live = timeout(BROWSER_PATIENCE, lines.next_line()).await;
        let live = live.context("the pages take too long")??;
        ensure!(live.as_deref() == Some("live"), "the pages do not open");
        Ok(OpenPages(child))
    }
}

/// Pages that stay open until their standard input is closed.
struct OpenPages(tokio::process::Child);

impl OpenPages {
    async fn close(mut self) -> anyhow::Result<()> {
        drop(self.0.stdin.take());
        let ended = timeout(PATIENCE, self.0.wait()).await;
        let ended = ended.context("the pages do not close")??;
        ensure!(ended.success(), "the browser's side failed");
        Ok(())
    }
}

fn section(
    ground: &Ground,
    figures: &Figures,
    (before, with): (Reading, Reading),
) -> anyhow::Result<Section> {
    ensure!(
        figures.shown_ms.len() >= ground.plan.shown && !figures.list_ms.is_empty(),
        "the browser's side measured too little"
    );
    let spread = |ms: &[f64]| {
        let times = ms.iter().map(|ms| Duration::from_secs_f64(ms / 1_000.0));
        Spread::of(&times.collect::<Vec<_>>())
    };
    let ranked = |label: &str, ms: &[f64]| Ranked {
        label: label.to_owned(),
        spread: spread(ms),
        more: Vec::new(),
    };
    let known = ground.plan.known;
    let times = [
        ranked(
            &format!("list of {known} conversations, cold, phone"),
            &figures.list_ms,
        ),
        ranked("commit of an event to its text", &figures.shown_ms),
        ranked("diff of 10,000 lines, painted", &figures.diff_ms),
    ];
    let pages = ground.plan.pages;
    let sizes = Table {
        title: "Sizes".to_owned(),
        head: ["what", "measured"].map(str::to_owned).to_vec(),
        rows: [
            ("all files, gzip, kB", figures.all_kb),
            ("of them for the inbox, kB", figures.first_kb),
            ("daemon before, MiB", before.rss_mib),
            (&*format!("daemon with {pages} pages, MiB"), with.rss_mib),
        ]
        .map(|(what, value)| vec![what.to_owned(), format!("{value:.1}")])
        .to_vec(),
    };
    let column = |label: String, value| Column {
        label,
        value,
        whose: Whose::Ours,
    };
    Ok(Section {
        title: "The console".to_owned(),
        words: vec![WORDS.to_owned()],
        tables: vec![
            Table::of_spreads("In the browser, ms", &["what"], 1, &times),
            sizes,
        ],
        plots: vec![Plot::Columns {
            file: "console.svg",
            title: "Memory of the daemon".to_owned(),
            unit: "MiB",
            rows: vec![
                column("no page".to_owned(), before.rss_mib),
                column(format!("{pages} live pages"), with.rss_mib),
            ],
            bar: None,
        }],
        bars: vec![
            bars::console_size(figures.all_kb),
            bars::console_list(median(&figures.list_ms), known),
            bars::console_shown(spread(&figures.shown_ms).p95),
            bars::console_diff(median(&figures.diff_ms)),
        ],
        ..Section::default()
    })
}
