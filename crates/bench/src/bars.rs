//! The bars of the design, in one place. A part measures; what its figure must hold is here.

use crate::section::{Bar, Limit};

/// A warm message from inbox to visible reply, beyond a bare turn, in ms.
pub(crate) fn beyond_a_bare_turn(ms: f64) -> Bar {
    Bar {
        words: "warm message, inbox to visible reply, beyond a bare app-server turn".to_owned(),
        measured: ms,
        limit: Limit::AtMost(10.0),
        unit: "ms",
    }
}

/// How many times faster than one `codex exec resume` of the native binary.
pub(crate) fn faster_than_exec(times: f64) -> Bar {
    Bar {
        words: "the same message against `codex exec resume`, native binary".to_owned(),
        measured: times,
        limit: Limit::AtLeast(2.5),
        unit: "x",
    }
}

/// The same through npm's shim.
pub(crate) fn faster_than_shim(times: f64) -> Bar {
    Bar {
        words: "the same message against `codex exec resume`, npm shim".to_owned(),
        measured: times,
        limit: Limit::AtLeast(3.0),
        unit: "x",
    }
}

/// From the commit of a row to its pick-up, p95, in ms.
pub(crate) fn picked_up(ms: f64, senders: usize) -> Bar {
    Bar {
        words: format!("Molecule, commit of a row to its pick-up, {senders} senders at once, p95"),
        measured: ms,
        limit: Limit::AtMost(50.0),
        unit: "ms",
    }
}

/// Memory of bridge and Codex together against one app-server per task; 15 means a fifteenth.
pub(crate) fn smaller_than_one_each(times: f64, conversations: usize) -> Bar {
    Bar {
        words: format!(
            "{conversations} conversations: memory of one app-server per task against bridge and Codex"
        ),
        measured: times,
        limit: Limit::AtLeast(15.0),
        unit: "x",
    }
}

/// All that a browser can load of the console, gzip.
pub(crate) fn console_size(kb: f64) -> Bar {
    Bar {
        words: "all that a browser loads of the console, gzip".to_owned(),
        measured: kb,
        limit: Limit::AtMost(60.0),
        unit: "kB",
    }
}

/// The list of conversations on a phone whose cache is empty.
pub(crate) fn console_list(ms: f64, conversations: usize) -> Bar {
    Bar {
        words: format!("console: list of {conversations} conversations, cold, phone profile"),
        measured: ms,
        limit: Limit::AtMost(500.0),
        unit: "ms",
    }
}

/// From the commit of an event to its text on the page, p95.
pub(crate) fn console_shown(ms: f64) -> Bar {
    Bar {
        words: "console: commit of an event to its text on the page, p95".to_owned(),
        measured: ms,
        limit: Limit::AtMost(150.0),
        unit: "ms",
    }
}

/// A diff of 10,000 lines.
pub(crate) fn console_diff(ms: f64) -> Bar {
    Bar {
        words: "console: a diff of 10,000 lines, painted".to_owned(),
        measured: ms,
        limit: Limit::AtMost(200.0),
        unit: "ms",
    }
}

/// Whole lives of messages, durable, 64 conversations.
pub(crate) fn lives_per_second(rate: f64) -> Bar {
    Bar {
        words: "ledger alone, whole life of a message, durable, 64 conversations".to_owned(),
        measured: rate,
        limit: Limit::AtLeast(3_000.0),
        unit: "messages/s",
    }
}

/// The rate with finished rows behind it against the rate with none.
pub(crate) fn rate_with_history(ratio: f64, rows: u64) -> Bar {
    Bar {
        words: format!("the same with {rows} finished messages behind it, against none"),
        measured: ratio,
        limit: Limit::AtLeast(0.9),
        unit: "x",
    }
}

/// What a whole life costs on PostgreSQL, in transactions of `pgbench -N` beside it.
pub(crate) fn life_in_transactions(transactions: f64, nodes: u64, conversations: u64) -> Bar {
    let nodes = match nodes {
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    Bar {
        words: format!(
            "PostgreSQL, {nodes}, {conversations} conversations: whole life of a message, in transactions of `pgbench -N` in turn"
        ),
        measured: transactions,
        limit: Limit::AtMost(4.0),
        unit: "transactions",
    }
}

/// What storing a thread adds to the end of a turn, in ms.
pub(crate) fn shipping(ms: f64) -> Bar {
    Bar {
        words: "storing what a turn added to its thread, beyond a turn whose thread is not stored"
            .to_owned(),
        measured: ms,
        limit: Limit::AtMost(3.0),
        unit: "ms",
    }
}

/// Processor time of storing, as a share of what Codex used for the same turns, in percent.
pub(crate) fn shipping_share(percent: f64) -> Bar {
    Bar {
        words: "the same, processor time against Codex's own".to_owned(),
        measured: percent,
        limit: Limit::AtMost(5.0),
        unit: "%",
    }
}

pub(crate) fn idle_memory(mib: f64) -> Bar {
    Bar {
        words: "bridge's own memory, idle".to_owned(),
        measured: mib,
        limit: Limit::AtMost(25.0),
        unit: "MiB",
    }
}

pub(crate) fn known_memory(mib: f64, conversations: usize) -> Bar {
    Bar {
        words: format!("bridge's own memory, {conversations} conversations"),
        measured: mib,
        limit: Limit::AtMost(60.0),
        unit: "MiB",
    }
}

/// From the start of the process to ready.
pub(crate) fn start_to_ready(ms: f64, unfinished: u64) -> Bar {
    Bar {
        words: format!("start to ready with {unfinished} unfinished rows"),
        measured: ms,
        limit: Limit::AtMost(2_000.0),
        unit: "ms",
    }
}

/// The daemon's memory behind floods against before them: nothing of a flood may stay.
pub(crate) fn memory_after_floods(ratio: f64) -> Bar {
    Bar {
        words: "bridge's own memory after floods of deltas, against before".to_owned(),
        measured: ratio,
        limit: Limit::AtMost(1.1),
        unit: "x",
    }
}

/// What a drill found that was not as promised: figures of a run that broke one say nothing.
pub(crate) fn promises_broken(count: usize) -> Bar {
    Bar {
        words: "promises that the drill saw broken by the bridge".to_owned(),
        measured: count as f64,
        limit: Limit::AtMost(0.0),
        unit: "",
    }
}

/// The most that Codex and what it started ever had, against what it may have.
pub(crate) fn budget_held(mib: f64, budget_mib: u64, conversations: usize) -> Bar {
    Bar {
        words: format!("most memory of Codex with {conversations} conversations on a budget"),
        measured: mib,
        limit: Limit::AtMost(budget_mib as f64),
        unit: "MiB",
    }
}
