//! What the fleet's measurements mean: tables, plots, ratios and bars.

use super::Daemons;
use super::database::TableSize;
use super::death::Death;
use super::lives::{Growth, Measured, Width};
use crate::bars;
use crate::report::number;
use crate::section::{Axis, Curve, Piece, Plot, Ranked, Ratio, Section, Table, Whose};
use crate::stats::Spread;
use std::collections::BTreeSet;
use std::time::Duration;

/// Characters of a statement that are shown.
const STATEMENT_CHARS: usize = 90;

pub(super) fn section(lives: &Measured, daemons: &Daemons) -> Section {
    let shipping = &daemons.shipping;
    let crowds = lives.widths.iter().filter(|width| width.is_crowd());
    let mut bars: Vec<_> = crowds
        .clone()
        .map(|width| bars::life_in_transactions(width.cost(), width.nodes, width.conversations))
        .collect();
    bars.push(bars::shipping(shipping.beyond));
    bars.push(bars::shipping_share(share(daemons)));
    Section {
        title: "Several nodes over one PostgreSQL".to_owned(),
        words: words(lives, daemons),
        tables: vec![
            table_of_lives(&lives.widths),
            table_of_ends(daemons),
            table_of_processors(daemons),
            table_of_deaths(daemons),
            table_of_idle(daemons),
            table_of_statements(daemons),
            table_of_bytes(lives, daemons),
            table_of_growth(&lives.growth, daemons),
        ],
        plots: vec![
            plot_of_lives(&lives.widths),
            plot_of_deaths(&daemons.deaths),
        ],
        ratios: ratios(&lives.widths),
        bars,
    }
}

/// Processor time of storing, in percent of Codex's own for the turn.
fn share(daemons: &Daemons) -> f64 {
    100.0 * daemons.replay.processor / daemons.shipping.stored.codex
}

fn words(lives: &Measured, daemons: &Daemons) -> Vec<String> {
    let lease = daemons.lease.as_secs();
    let idle = daemons.idle.watched.as_secs();
    vec![
        format!(
            "PostgreSQL {} with its default settings (`fsync`, `synchronous_commit` and `full_page_writes` are on), on a unix socket, its files on {}. A life is the same as on SQLite, above. The nodes are ledgers of one process, each opened as a daemon opens its own, with a scheduler and conversations of its own; server and nodes share the machine's processors. `pgbench -N` (a read, an update and an insert in each transaction, prepared) has as many clients as there are conversations, and takes turns with the lives on the same server; which of the two is first changes with every round. What a life costs is the median over neighbours. The bar is for {} conversations: one alone waits for a commit at each of its transitions, so it can't cost fewer than that.",
            lives.version,
            lives.kind,
            lives.widths.iter().map(|width| width.conversations).max().unwrap_or_default(),
        ),
        "Storing threads: the same turn in turn on a node and on a daemon whose ledger is a file, which stores no threads, both installed, each with its own real Codex. What is timed is the end of the turn, from Codex's `turn/completed` until the answer may be stored. The processor time of storing is seen by itself: the file that the node's Codex wrote grows again as it grew, and the daemon's code reads it and stores it on the same server from the bench's process.".to_owned(),
        format!(
            "Deaths: two installed daemons with the default lease of {lease} s (`fleet.lease_secs`) and the real Codex. A turn waits for its model when its node, with its keeper and Codex, is killed (`kill -9`), at a time after its begin that is spread over a quarter of a lease, which is how often a node renews it. The directory is shared, CODEX_HOME is not: the other node brings the thread from the database. Idle: both nodes for {idle} s, each with its Codex up; statements by `pg_stat_statements`, `BEGIN` and `COMMIT` counted as well."
        ),
        "What a message leaves: bytes are those of tables with their indexes and long values, as they grew (with what updates left behind) and written anew (`VACUUM FULL`). A turn is a short one, without a tool; what a thread begins with are Codex's instructions.".to_owned(),
    ]
}

fn strings(head: &[&str]) -> Vec<String> {
    head.iter().map(|word| (*word).to_owned()).collect()
}

fn label(width: &Width) -> String {
    format!("{}, {}", nodes(width.nodes), conversations(width))
}

fn nodes(count: u64) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}

fn conversations(width: &Width) -> String {
    if width.is_crowd() {
        format!("{} conversations", width.conversations)
    } else {
        "1 conversation each".to_owned()
    }
}

fn table_of_lives(widths: &[Width]) -> Table {
    let row = |width: &Width| {
        vec![
            label(width),
            number(width.rate()),
            number(width.simple()),
            number(width.cost()),
            number(width.transitions()),
            format!("{:.2}", width.commits()),
            number(width.trips()),
            number(width.log_bytes()),
            format!("{:.2}", width.ours()),
            format!("{:.2}", width.server()),
        ]
    };
    Table {
        title: "Whole lives per second".to_owned(),
        head: strings(&[
            "who",
            "lives/s",
            "`pgbench -N` in turn, transactions/s",
            "transactions that a life costs",
            "transitions each",
            "commits each",
            "round trips of writers each",
            "bytes of WAL each",
            "processor, nodes, ms each",
            "processor, server, ms each",
        ]),
        rows: widths.iter().map(row).collect(),
    }
}

fn ranked(label: &str, spread: Spread) -> Ranked {
    Ranked {
        label: label.to_owned(),
        spread,
        more: Vec::new(),
    }
}

fn table_of_ends(daemons: &Daemons) -> Table {
    let shipping = &daemons.shipping;
    let rows = [
        ranked("node, its thread is stored", shipping.stored.ends),
        ranked("daemon with a file, not stored", shipping.plain.ends),
        ranked("storing by itself", daemons.replay.wall),
    ];
    Table::of_spreads("The end of a turn, in ms", &["what"], 2, &rows)
}

fn table_of_processors(daemons: &Daemons) -> Table {
    let (shipping, replay) = (&daemons.shipping, &daemons.replay);
    let row = |label: &str, ours: f64, codex: Option<f64>, server: Option<f64>| {
        let shown =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        vec![
            label.to_owned(),
            format!("{ours:.2}"),
            shown(codex),
            shown(server),
        ]
    };
    let (stored, plain) = (&shipping.stored, &shipping.plain);
    Table {
        title: "Processor time of a turn, in ms".to_owned(),
        head: strings(&["what", "bridge and keeper", "Codex", "PostgreSQL"]),
        rows: vec![
            row(
                "node of a fleet",
                stored.ours,
                Some(stored.codex),
                Some(shipping.server),
            ),
            row("daemon with a file", plain.ours, Some(plain.codex), None),
            row(
                "storing by itself",
                replay.processor,
                None,
                Some(replay.server),
            ),
        ],
    }
}

fn times(deaths: &[Death], of: fn(&Death) -> Duration) -> Spread {
    Spread::of(&deaths.iter().map(of).collect::<Vec<_>>())
}

fn table_of_deaths(daemons: &Daemons) -> Table {
    let deaths = &daemons.deaths;
    let lease = daemons.lease.as_secs();
    let rows = [
        ranked(
            "the other node has the conversation",
            times(deaths, |death| death.taken),
        ),
        ranked(
            "its turn has asked the model",
            times(deaths, |death| death.asked),
        ),
        ranked(
            "the answer is in the database",
            times(deaths, |death| death.answered),
        ),
    ];
    Table::of_spreads(
        &format!(
            "From `kill -9` of a node in the middle of a turn, with the default lease of {lease} s, in ms"
        ),
        &["until"],
        0,
        &rows,
    )
}

fn table_of_idle(daemons: &Daemons) -> Table {
    let idle = &daemons.idle;
    Table {
        title: "An idle node, per second".to_owned(),
        head: strings(&["nodes", "statements", "transactions", "bytes of WAL"]),
        rows: vec![vec![
            idle.nodes.to_string(),
            format!("{:.2}", idle.statements()),
            format!("{:.2}", idle.transactions()),
            number(idle.log_bytes()),
        ]],
    }
}

fn table_of_statements(daemons: &Daemons) -> Table {
    let idle = &daemons.idle;
    let row = |(calls, text): &(u64, String)| {
        let shown: String = text.chars().take(STATEMENT_CHARS).collect();
        let shown = shown.replace('|', "\\|");
        vec![format!("`{shown}`"), format!("{:.2}", idle.calls(*calls))]
    };
    Table {
        title: "Its most frequent statements".to_owned(),
        head: strings(&["statement", "per second"]),
        rows: idle.most.iter().map(row).collect(),
    }
}

fn table_of_bytes(lives: &Measured, daemons: &Daemons) -> Table {
    let shipping = &daemons.shipping;
    let (grown, packed) = totals(&lives.growth);
    let turns = growth(&shipping.before, &shipping.after, shipping.turns);
    let of_turns: f64 = turns.iter().map(|(_, size)| size.bytes).sum();
    let first = lives.widths.iter().filter(|width| width.nodes == 1);
    let mut rows: Vec<Vec<String>> = first
        .map(|width| {
            vec![
                format!("WAL of a life, {}", label(width)),
                number(width.log_bytes()),
            ]
        })
        .collect();
    let more = [
        ("WAL of a turn with Codex, alone", shipping.log_bytes),
        ("database, a life, as it grew", grown),
        ("database, a life, written anew", packed),
        ("database, a turn with Codex, as it grew", of_turns),
        (
            "thread's file, what it begins with",
            shipping.first_bytes as f64,
        ),
        ("thread's file, what a turn adds", shipping.turn_bytes),
        (
            "the same as it is stored",
            shipping.turn_bytes * shipping.kept_ratio,
        ),
    ];
    rows.extend(more.map(|(words, bytes)| vec![words.to_owned(), number(bytes)]));
    Table {
        title: "What a message costs the server's disk, in bytes".to_owned(),
        head: strings(&["what", "bytes"]),
        rows,
    }
}

/// What one message added to a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Each {
    rows: f64,
    bytes: f64,
}

fn growth(before: &[TableSize], after: &[TableSize], messages: u64) -> Vec<(String, Each)> {
    let messages = messages.max(1) as f64;
    let each = |table: &TableSize| {
        let was = before.iter().find(|was| was.table == table.table);
        let (rows, bytes) = was.map_or((0, 0), |was| (was.rows, was.bytes));
        let each = Each {
            rows: table.rows.saturating_sub(rows) as f64 / messages,
            bytes: table.bytes.saturating_sub(bytes) as f64 / messages,
        };
        (table.table.clone(), each)
    };
    after.iter().map(each).collect()
}

/// Bytes of a life, as they grew and written anew.
fn totals(grown: &Growth) -> (f64, f64) {
    let sum = |after: &[TableSize]| {
        let each = growth(&grown.before, after, grown.messages);
        each.iter().map(|(_, size)| size.bytes).sum()
    };
    (sum(&grown.after), sum(&grown.packed))
}

fn table_of_growth(grown: &Growth, daemons: &Daemons) -> Table {
    let shipping = &daemons.shipping;
    let lived = growth(&grown.before, &grown.after, grown.messages);
    let packed = growth(&grown.before, &grown.packed, grown.messages);
    let turned = growth(&shipping.before, &shipping.after, shipping.turns);
    let of = |all: &[(String, Each)], table: &str| {
        let found = all.iter().find(|(name, _)| name == table);
        found.map(|(_, each)| *each).unwrap_or_default()
    };
    let names: BTreeSet<&String> = [&lived, &turned]
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .collect();
    let rows = names.into_iter().filter_map(|name| {
        let (life, anew, turn) = (of(&lived, name), of(&packed, name), of(&turned, name));
        let empty = life.bytes < 1.0 && turn.bytes < 1.0 && life.rows == 0.0 && turn.rows == 0.0;
        (!empty).then(|| {
            vec![
                name.clone(),
                format!("{:.2}", life.rows),
                number(life.bytes),
                number(anew.bytes),
                format!("{:.2}", turn.rows),
                number(turn.bytes),
            ]
        })
    });
    Table {
        title: format!(
            "Rows and bytes that a message adds, {} lives and {} turns with Codex",
            grown.messages, shipping.turns
        ),
        head: strings(&[
            "table",
            "rows, life",
            "bytes, life",
            "bytes, life, written anew",
            "rows, turn",
            "bytes, turn",
        ]),
        rows: rows.collect(),
    }
}

fn ratios(widths: &[Width]) -> Vec<Ratio> {
    let crowds = widths.iter().filter(|width| width.is_crowd());
    crowds
        .map(|width| Ratio {
            key: format!("fleet.life_{}_of_{}", width.nodes, width.conversations),
            words: format!("{}: a life in transactions of `pgbench -N`", label(width)),
            value: width.cost(),
        })
        .collect()
}

fn plot_of_lives(widths: &[Width]) -> Plot {
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        logarithmic: false,
    };
    let curve = |label: String, whose, crowd: bool, value: &dyn Fn(&Width) -> f64| Curve {
        label,
        points: widths
            .iter()
            .filter(|width| width.is_crowd() == crowd)
            .map(|width| (width.nodes as f64, value(width)))
            .collect(),
        whose,
    };
    let most = bars::life_in_transactions(0.0, 1, 1).limit.number();
    Plot::Curves {
        file: "fleet-lives.svg",
        title: "Whole lives per second over one PostgreSQL".to_owned(),
        x: axis("nodes"),
        y: axis("messages per second"),
        curves: vec![
            curve(
                "64 conversations".to_owned(),
                Whose::Ours,
                true,
                &Width::rate,
            ),
            curve(
                "1 conversation each".to_owned(),
                Whose::Ours,
                false,
                &Width::rate,
            ),
            curve(
                format!("pgbench -N / {most:.0}"),
                Whose::Other,
                true,
                &|width| width.simple() / most,
            ),
        ],
        bar: None,
    }
}

fn plot_of_deaths(deaths: &[Death]) -> Plot {
    let [taken, asked, answered] = [
        times(deaths, |death| death.taken).p50,
        times(deaths, |death| death.asked.saturating_sub(death.taken)).p50,
        times(deaths, |death| death.answered.saturating_sub(death.asked)).p50,
    ];
    let piece = |label: &str, value, whose| Piece {
        label: label.to_owned(),
        value,
        whose,
    };
    Plot::Pieces {
        file: "fleet-death.svg",
        title: "From the death of a node to the answer on another".to_owned(),
        unit: "ms",
        pieces: vec![
            piece("the lease ends, another node looks", taken, Whose::Other),
            piece(
                "its thread is brought, Codex asks the model",
                asked,
                Whose::Ours,
            ),
            piece("Codex answers", answered, Whose::Codex),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(table: &str, rows: u64, bytes: u64) -> TableSize {
        TableSize {
            table: table.to_owned(),
            rows,
            bytes,
        }
    }

    #[test]
    fn growth_is_per_message() {
        let before = [size("message", 0, 1_000)];
        let after = [size("message", 10, 21_000), size("turn", 5, 500)];
        let found = growth(&before, &after, 10);
        let each = |rows, bytes| Each { rows, bytes };
        let expected = [
            ("message".to_owned(), each(1.0, 2_000.0)),
            ("turn".to_owned(), each(0.5, 50.0)),
        ];
        assert_eq!(found, expected);
    }
}
