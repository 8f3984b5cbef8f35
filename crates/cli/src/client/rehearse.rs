//! `rehearse`: what would change with another Codex, tried on the shape of the newest conversations.

use super::api::{ApiClient, ClientError};
use super::ls::conversations;
use super::page::{PLAIN, Page};
use crate::cli::{Common, RehearseArgs};
use crate::doctor;
use anyhow::{Context, bail};
use bridge_core::channels::LOCAL;
use bridge_core::phase::Phase;
use bridge_core::value::{ApprovalPolicy, EventKind, Sandbox};
use bridge_daemon::config::{Environment, Tiers, load};
use bridge_daemon::term::escape_line;
use bridge_front::{ConversationStory, EventView, MessageView, StoryView};
use bridge_host::LaunchOptions;
use bridge_host::binary::{self, Binary, install};
use bridge_host::rehearsal::{
    COMMANDS_MAX, ConversationShape, Rehearsal, ReplayCost, TURNS_MAX, TurnShape, rehearse,
};
use bridge_host::self_check::{Decision, Finding, Severity};
use bridge_host::version::Version;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How the headline of a command begins in the events of a message.
const COMMAND: &str = "running ";

/// What `rehearse --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RehearsalView {
    /// Whether nothing breaks.
    ok: bool,
    /// The Codex that the daemon is told to use.
    old: ReplayView,
    /// The other one.
    new: ReplayView,
    conversations: usize,
    /// Turns that were replayed on each.
    turns: u64,
    /// What the check of the new one says by itself, worst first.
    check: Vec<FindingView>,
    /// What it did otherwise with the same conversations, worst first.
    changes: Vec<FindingView>,
}

/// What a replay cost.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReplayView {
    version: String,
    path: String,
    /// Processor time of Codex and what it started, in milliseconds.
    cpu_ms: u64,
    /// The most memory that it had at once, in KiB.
    peak_kib: u64,
    wall_ms: u64,
    /// Requests to the model.
    model_requests: u64,
}

/// One finding.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FindingView {
    /// `breaks`, `blind_spot` (this bridge does not know it) or `harmless`.
    severity: SeverityView,
    what: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SeverityView {
    Harmless,
    BlindSpot,
    Breaks,
}

impl From<&Finding> for FindingView {
    fn from(finding: &Finding) -> Self {
        let severity = match finding.severity {
            Severity::Harmless => SeverityView::Harmless,
            Severity::BlindSpot => SeverityView::BlindSpot,
            Severity::Breaks => SeverityView::Breaks,
        };
        Self {
            severity,
            what: finding.what.clone(),
        }
    }
}

impl ReplayView {
    fn new(cost: &ReplayCost, path: &Path) -> Self {
        Self {
            version: cost.version.clone(),
            path: path.display().to_string(),
            cpu_ms: cost.cpu_ms,
            peak_kib: cost.peak_kib,
            wall_ms: cost.wall_ms,
            model_requests: cost.model_requests,
        }
    }
}

/// Runs the command. It reads the daemon's conversations, and nothing else of the live state.
pub(crate) async fn run(
    client: &ApiClient,
    args: &RehearseArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let state_dir = common.state_dir.as_deref();
    let mut loaded = load(common.config.as_deref(), environment, state_dir)?;
    if let Some(old) = &args.old {
        loaded.override_with(Some(old.clone()), None)?;
    }
    let vars = environment.program_vars();
    let old =
        binary::find(loaded.config.codex.bin.as_deref(), vars).context("the present Codex")?;
    let new = find_or_install(&args.codex, environment).await?;
    let shapes = shapes(client, args.conversations, &loaded.config.tiers).await?;
    // In the state directory: the sandbox lets commands write in the temporary ones.
    let scratch = tempfile::Builder::new()
        .prefix(".rehearsal-")
        .tempdir_in(environment.state_dir(state_dir)?)
        .context("make a scratch directory in the state directory")?;
    let launch = |binary: &Binary, name: &str| -> anyhow::Result<LaunchOptions> {
        let env = environment.for_codex(&loaded.config);
        Ok(doctor::launch(
            &loaded,
            binary,
            env,
            &scratch.path().join(name),
        )?)
    };
    let (of_old, of_new) = (launch(&old, "old")?, launch(&new, "new")?);
    let found = tokio::select! {
        found = rehearse(&of_old, &of_new, &shapes, scratch.path()) => found?,
        _ = tokio::signal::ctrl_c() => bail!("left; nothing was changed"),
    };
    let view = view(&found, shapes.len(), &old.path, &new.path);
    let code = if found.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    args.output.show(&view, code, |view| {
        words(view, Page::stdout(environment.no_color()))
    })
}

/// A path, or a version that npm installs beside whatever the machine has.
async fn find_or_install(named: &str, environment: &Environment) -> anyhow::Result<Binary> {
    let vars = environment.program_vars();
    let Ok(version) = named.parse::<Version>() else {
        return Ok(binary::find(Some(Path::new(named)), vars)?);
    };
    let cache = environment.cache_dir();
    let tools = cache.context("no cache directory: set HOME or XDG_CACHE_HOME")?;
    let (tools, env) = (tools.join("codex-bridge"), environment.all().to_vec());
    let installed = tokio::task::spawn_blocking(move || {
        let mut say = |line: &str| super::say(&escape_line(line));
        install::install(&tools, &version, &env, &mut say)
    });
    let path: PathBuf = installed.await??;
    Ok(binary::find(Some(&path), vars)?)
}

/// The shapes of the newest conversations. Texts are measured here, and go no further.
async fn shapes(
    client: &ApiClient,
    limit: u32,
    tiers: &Tiers,
) -> Result<Vec<ConversationShape>, ClientError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut shapes = Vec::new();
    for one in conversations(client, limit).await?.conversations {
        let id = &one.conversation.conversation_id;
        let path = format!("/v1/conversations/{id}?limit={TURNS_MAX}");
        let story: ConversationStory = client.get(&path).await?;
        let mut turns = Vec::new();
        for message in story
            .messages
            .iter()
            .rev()
            .filter(|message| has_turn(message))
        {
            turns.push(turn(&client.message(&message.message_id).await?));
        }
        if turns.is_empty() {
            continue;
        }
        let (sandbox, approval_policy) = may(&story.messages, tiers);
        shapes.push(ConversationShape {
            sandbox,
            approval_policy,
            turns,
        });
    }
    Ok(shapes)
}

/// A message that had a turn of its own, which is over.
fn has_turn(message: &MessageView) -> bool {
    let stopped = message.phase == Phase::Stopped.as_str() && message.attempt > 0;
    message.leader.is_none() && (message.answer.is_some() || stopped)
}

fn turn(story: &StoryView) -> TurnShape {
    let message = &story.message;
    let asked: Vec<_> = message
        .requests
        .iter()
        .filter(|request| request.wants == "approval")
        .map(|request| match request.decision.as_deref() {
            Some("accept" | "acceptForSession") => Decision::Accept,
            Some(_) | None => Decision::Decline,
        })
        .collect();
    let begun = |event: &&EventView| event.kind == EventKind::Started.as_str();
    let begun = story.events.iter().filter(begun);
    let commands = begun.filter(|event| event.text.starts_with(COMMAND));
    let unasked = commands.count().saturating_sub(asked.len());
    TurnShape {
        text_chars: message.text.chars().count(),
        answer_chars: message
            .answer
            .as_ref()
            .map_or(0, |answer| answer.text.chars().count()),
        commands: u32::try_from(unasked).unwrap_or(COMMANDS_MAX),
        asked,
        stopped: message.answer.is_none(),
    }
}

/// What the sender's tier may do. A message does not say its tier; what it asked does, and on the local channel it is the
/// owner's.
fn may(messages: &[MessageView], tiers: &Tiers) -> (Sandbox, ApprovalPolicy) {
    let mut asked = messages.iter().flat_map(|message| &message.requests);
    let tier = asked.next().map(|request| request.tier.as_str());
    let is_local = messages.iter().any(|message| message.channel == LOCAL);
    match tier {
        Some("owner") => (tiers.owner.sandbox(), tiers.owner.approval_policy()),
        None if is_local => (tiers.owner.sandbox(), tiers.owner.approval_policy()),
        Some("tool") => (tiers.tool.sandbox(), tiers.tool.approval_policy()),
        Some(_) | None => (tiers.peer.sandbox(), tiers.peer.approval_policy()),
    }
}

fn view(found: &Rehearsal, conversations: usize, old: &Path, new: &Path) -> RehearsalView {
    let findings = |all: &[Finding]| all.iter().map(FindingView::from).collect();
    RehearsalView {
        ok: found.passed(),
        old: ReplayView::new(&found.old, old),
        new: ReplayView::new(&found.new, new),
        conversations,
        turns: found.turns,
        check: findings(&found.verdict.findings),
        changes: findings(&found.changes),
    }
}

fn words(view: &RehearsalView, mut page: Page) -> String {
    let mut line = |text: String| page.line(0, &text, PLAIN);
    line(format!(
        "Codex {} beside {}: {} conversations, {} turns on each",
        view.new.version, view.old.version, view.conversations, view.turns
    ));
    for (title, findings) in [
        ("the check of it", &view.check),
        ("what would change", &view.changes),
    ] {
        if findings.is_empty() {
            line(format!("{title}: nothing"));
            continue;
        }
        line(format!("{title}:"));
        for finding in findings {
            let severity = match finding.severity {
                SeverityView::Harmless => Severity::Harmless,
                SeverityView::BlindSpot => Severity::BlindSpot,
                SeverityView::Breaks => Severity::Breaks,
            };
            line(format!(
                "  {}: {}",
                severity.as_str(),
                escape_line(&finding.what)
            ));
        }
    }
    let figures = |replay: &ReplayView| {
        format!(
            "{} ms of processor time, {} MiB of memory, {} requests to the model",
            replay.cpu_ms,
            replay.peak_kib / 1024,
            replay.model_requests
        )
    };
    line(format!("{}: {}", view.old.version, figures(&view.old)));
    line(format!("{}: {}", view.new.version, figures(&view.new)));
    line(if view.ok {
        format!(
            "{} can take the place of {}",
            view.new.version, view.old.version
        )
    } else {
        format!(
            "stay with {}: with {} something breaks",
            view.old.version, view.new.version
        )
    });
    page.into_text()
}
