//! `node` and `move`: daemons that share a database, and which of them has a conversation.

use super::api::{ApiClient, ClientError, NO_BODY};
use super::find::{clip, conversation_of, path_to};
use super::now_ms;
use super::page::{BOLD, DIM, Look, PLAIN, Page, YELLOW};
use crate::cli::{MoveArgs, NodeArgs, NodeCommand, OutputArgs};
use bridge_core::limits::HOMES_COUNTED_MAX;
use bridge_daemon::term::{cells, escape, span};
use bridge_front::{MoveRequest, MoveView, NodeActView, NodeList, NodeView};
use std::process::ExitCode;

/// Longest name of a node; the table is 80 cells wide with it.
const NAME_MAX: usize = 20;
/// Longest version.
const VERSION_MAX: usize = 10;
/// The API's status for what does not exist.
const NOT_FOUND: u16 = 404;
const COLUMNS: usize = 6;
const HEAD: [&str; COLUMNS] = [
    "node",
    "state",
    "turns",
    "conversations",
    "version",
    "since",
];
/// Which of the columns are numbers.
const NUMBERS: [bool; COLUMNS] = [false, false, true, true, false, false];

pub(crate) async fn node(
    client: &ApiClient,
    command: NodeCommand,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    match command {
        NodeCommand::List(output) => list(client, output, no_color).await,
        NodeCommand::Drain(args) => act(client, &args, "drain").await,
        NodeCommand::Activate(args) => act(client, &args, "activate").await,
    }
}

async fn list(client: &ApiClient, output: OutputArgs, no_color: bool) -> anyhow::Result<ExitCode> {
    let found: NodeList = client.get("/v1/nodes").await?;
    output.show(&found, ExitCode::SUCCESS, |found| {
        list_words(&found.nodes, now_ms(), Page::stdout(no_color))
    })
}

async fn act(client: &ApiClient, args: &NodeArgs, act: &str) -> anyhow::Result<ExitCode> {
    let path = path_to(&["v1", "nodes", &args.node, act])?;
    let done: NodeActView = client.post(&path, NO_BODY, None).await?;
    args.output.show(&done, ExitCode::SUCCESS, |done| {
        let said = format!("node {} is {}: {}", done.node_id, done.outcome, done.detail);
        escape(&said).into_owned()
    })
}

pub(crate) async fn move_conversation(
    client: &ApiClient,
    args: &MoveArgs,
) -> anyhow::Result<ExitCode> {
    let name = args.conversation.as_str();
    let moved = match give(client, name, &args.to).await {
        // No conversation is called so; a message or task in one may be.
        Err(ClientError::Refused(problem)) if problem.status == NOT_FOUND => {
            let key = conversation_of(client, name).await?;
            give(client, &key, &args.to).await?
        }
        moved => moved?,
    };
    args.output.show(&moved, ExitCode::SUCCESS, moved_words)
}

async fn give(client: &ApiClient, conversation: &str, to: &str) -> Result<MoveView, ClientError> {
    let path = path_to(&["v1", "conversations", conversation, "move"])?;
    let request = MoveRequest { to: to.to_owned() };
    client.post(&path, Some(&request), None).await
}

fn moved_words(moved: &MoveView) -> String {
    let is = match moved.outcome.as_str() {
        "moved" => " is moved",
        _ => "",
    };
    escape(&format!("{}{is}: {}", moved.key, moved.detail)).into_owned()
}

fn list_words(nodes: &[NodeView], now_ms: i64, mut page: Page) -> String {
    if nodes.is_empty() {
        return "this daemon has the database for itself; there are no other nodes".to_owned();
    }
    let rows: Vec<[String; COLUMNS]> = nodes.iter().map(|node| row(node, now_ms)).collect();
    let head = HEAD.map(ToOwned::to_owned);
    let mut widths = head.each_ref().map(|cell| cells(cell));
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cells(cell).max(*width);
        }
    }
    line(&head, widths, [DIM; COLUMNS], &mut page);
    for (row, node) in rows.iter().zip(nodes) {
        let state = state_look(&node.state);
        let looks = [BOLD, state, PLAIN, PLAIN, PLAIN, PLAIN];
        line(row, widths, looks, &mut page);
    }
    if nodes.iter().any(|node| node.answers) {
        page.line(0, "* the one that answers here", DIM);
    }
    page.into_text()
}

fn row(node: &NodeView, now_ms: i64) -> [String; COLUMNS] {
    let mark = if node.answers { " *" } else { "" };
    let since = node.gone_at.unwrap_or(node.started_at);
    [
        format!("{}{mark}", clip(&node.node_id, NAME_MAX)),
        clip(&node.state, NAME_MAX),
        format!("{}/{}", node.turns, node.capacity),
        counted(node.conversations),
        clip(&node.version, VERSION_MAX),
        span(now_ms.saturating_sub(since.ms())),
    ]
}

/// One line of the table. The last cell is folded where there is no room for it.
fn line(
    row: &[String; COLUMNS],
    widths: [usize; COLUMNS],
    looks: [Look; COLUMNS],
    page: &mut Page,
) {
    let ([cells_before @ .., last], [.., last_look]) = (row, looks);
    let mut head = String::new();
    for (((cell, width), look), number) in cells_before.iter().zip(widths).zip(looks).zip(NUMBERS) {
        let pad = " ".repeat(width.saturating_sub(cells(cell)));
        let cell = look(page.paint, cell);
        let (left, right) = if number { (pad, cell) } else { (cell, pad) };
        head.push_str(&format!("{left}{right}  "));
    }
    page.hang(&head, 2, last, last_look);
}

fn state_look(state: &str) -> Look {
    match state {
        "active" => |paint, text| paint.green(text),
        "draining" => YELLOW,
        "gone" => |paint, text| paint.red(text),
        _ => DIM,
    }
}

/// A node in `status`; one that does not take new work is marked.
pub(super) fn node_line(node: &NodeView, version: &str, now_ms: i64, page: &mut Page) {
    let this = if node.answers { " (this one)" } else { "" };
    let head = format!(
        "node {}{this} {}",
        clip(&node.node_id, NAME_MAX),
        node.state
    );
    let lapsed = node.gone_at.map(|at| span(now_ms.saturating_sub(at.ms())));
    let work = match lapsed {
        Some(ago) => format!("its lease ended {ago} ago"),
        None => format!("{} of {} turns", node.turns, node.capacity),
    };
    let other = if node.version == version {
        String::new()
    } else {
        format!(", codex-bridge {}", clip(&node.version, VERSION_MAX))
    };
    let said = format!("{head}: {work}, {}{other}", conversations(node));
    let look = match node.state.as_str() {
        "active" => PLAIN,
        _ => YELLOW,
    };
    page.line(2, &said, look);
}

fn conversations(node: &NodeView) -> String {
    match node.conversations {
        1 => "1 conversation".to_owned(),
        many => format!("{} conversations", counted(many)),
    }
}

/// Nobody counts further than the limit.
fn counted(conversations: u64) -> String {
    let more = if conversations >= u64::from(HOMES_COUNTED_MAX) {
        "+"
    } else {
        ""
    };
    format!("{conversations}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_daemon::term::Paint;
    use serde_json::json;

    fn node(id: &str, state: &str) -> NodeView {
        serde_json::from_value(json!({
            "node_id": id, "answers": id == "host-1", "state": state, "started_at": 0, "version": "0.1.0",
            "codex_version": "0.150.0", "capacity": 16, "turns": 3, "conversations": 12,
        }))
        .unwrap()
    }

    fn gone(id: &str, state: &str, at: i64) -> NodeView {
        NodeView {
            gone_at: Some(bridge_core::value::Timestamp(at).into()),
            turns: 0,
            conversations: 1,
            ..node(id, state)
        }
    }

    fn page() -> Page {
        Page::new(Paint::plain(), Some(80))
    }

    #[test]
    fn nodes_are_a_table() {
        let nodes = [
            node("host-1", "active"),
            node("host-2", "draining"),
            gone("host-3", "gone", 7_000_000),
        ];
        let words = list_words(&nodes, 7_200_000, page());
        let expected = "\
node      state     turns  conversations  version  since
host-1 *  active     3/16             12  0.1.0    2 h
host-2    draining   3/16             12  0.1.0    2 h
host-3    gone       0/16              1  0.1.0    3 min
* the one that answers here
";
        assert_eq!(words, expected);
    }

    #[test]
    fn long_names_fit_eighty_columns() {
        let mut long = node(&"x".repeat(90), "draining");
        long.answers = true;
        long.conversations = u64::from(HOMES_COUNTED_MAX);
        long.version = "10.20.30-rc.1+build".to_owned();
        let words = list_words(&[long], 23 * 3_600_000 + 59 * 60_000, page());
        assert_eq!(words.lines().count(), 3, "{words}");
        assert!(words.lines().all(|line| cells(line) <= 80), "{words}");
    }

    #[test]
    fn one_daemon_has_no_table() {
        let words = list_words(&[], 0, page());
        assert!(words.starts_with("this daemon has the database for itself"));
    }

    #[test]
    fn status_has_a_line_per_node() {
        let mut page = page();
        node_line(&node("host-1", "active"), "0.1.0", 0, &mut page);
        node_line(&node("host-2", "draining"), "0.2.0", 0, &mut page);
        node_line(&gone("host-3", "gone", 0), "0.1.0", 180_000, &mut page);
        assert_eq!(
            page.into_text(),
            "  node host-1 (this one) active: 3 of 16 turns, 12 conversations\n  \
               node host-2 draining: 3 of 16 turns, 12 conversations, codex-bridge 0.1.0\n  \
               node host-3 gone: its lease ended 3 min ago, 1 conversation\n"
        );
    }

    #[test]
    fn moves_are_told_in_a_sentence() {
        let view = |outcome: &str, detail: &str| MoveView {
            conversation_id: "c".to_owned(),
            key: "review".to_owned(),
            node: "b".to_owned(),
            outcome: outcome.to_owned(),
            detail: detail.to_owned(),
        };
        let moved = view("moved", "node b works on what comes next in it");
        assert_eq!(
            moved_words(&moved),
            "review is moved: node b works on what comes next in it"
        );
        let there = view("there", "it was with node b before");
        assert_eq!(moved_words(&there), "review: it was with node b before");
    }
}
