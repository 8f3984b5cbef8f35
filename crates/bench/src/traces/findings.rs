//! From lives to tables, a plot and words: whose each piece is, and why one of ours takes the time it takes.

use super::life::{Commit, Life, Moment};
use crate::section::{Piece, Plot, Ratio, Section, Table, Whose};
use crate::stats::{Spread, median, millis};
use std::collections::BTreeMap;
use std::time::Duration;

/// A piece of ours above this is explained on the page.
const EXPLAINED_FROM_MS: f64 = 1.0;

/// One piece of a life: from a moment to the next one.
struct Cut {
    to: Moment,
    label: &'static str,
    whose: Whose,
    /// What is in it, for a reader who asks why it is not nothing.
    why: &'static str,
}

const CUTS: [Cut; 14] = [
    Cut {
        to: Moment::Heard,
        label: "platform: its event reaches us",
        whose: Whose::Other,
        why: "",
    },
    Cut {
        to: Moment::Page,
        label: "platform: its feed is read",
        whose: Whose::Other,
        why: "",
    },
    Cut {
        to: Moment::Received,
        label: "message on disk (receive)",
        whose: Whose::Ours,
        why: "one transaction with its fsync: a message that was taken in is never lost",
    },
    Cut {
        to: Moment::Claimed,
        label: "scheduled and claimed",
        whose: Whose::Ours,
        why: "one transaction with its fsync: an attempt is counted before it is made, so that a message that kills the daemon is given up after three of them",
    },
    Cut {
        to: Moment::Ready,
        label: "row loaded, thread found",
        whose: Whose::Ours,
        why: "reads of the ledger; Codex is not asked anything when the thread is loaded",
    },
    Cut {
        to: Moment::Begun,
        label: "turn on disk (begin)",
        whose: Whose::Ours,
        why: "one transaction with its fsync: the intent is on disk before Codex hears of it, or a crash would pay twice",
    },
    Cut {
        to: Moment::Written,
        label: "turn/start written",
        whose: Whose::Ours,
        why: "",
    },
    Cut {
        to: Moment::Started,
        label: "Codex: turn/start answered",
        whose: Whose::Codex,
        why: "",
    },
    Cut {
        to: Moment::Text,
        label: "Codex: first words",
        whose: Whose::Codex,
        why: "",
    },
    Cut {
        to: Moment::Completed,
        label: "Codex: turn/completed",
        whose: Whose::Codex,
        why: "",
    },
    Cut {
        to: Moment::Ended,
        label: "follower hears of it",
        whose: Whose::Ours,
        why: "what the turn did before its end is journaled first",
    },
    Cut {
        to: Moment::Answered,
        label: "answer on disk (answer)",
        whose: Whose::Ours,
        why: "one transaction with its fsync: after it Codex is never asked again for this message",
    },
    Cut {
        to: Moment::Handed,
        label: "sending on disk (send)",
        whose: Whose::Ours,
        why: "one transaction with its fsync: a reply that may have been shown is looked for before it is sent again",
    },
    Cut {
        to: Moment::Seen,
        label: "platform: the bubble is visible",
        whose: Whose::Other,
        why: "",
    },
];

pub(super) fn section(lives: &[Life]) -> Section {
    let pieces = pieces(lives);
    let whole = |whose: Option<Whose>| {
        let sums = lives.iter().map(|life| {
            let cuts = CUTS.iter().zip(Moment::ALL);
            let counted = cuts.filter(|(cut, _)| whose.is_none_or(|whose| cut.whose == whose));
            let times = counted.map(|(cut, from)| millis(life.between(from, cut.to)));
            times.sum::<f64>()
        });
        median(&sums.collect::<Vec<f64>>())
    };
    let (all, ours, codex) = (
        whole(None),
        whole(Some(Whose::Ours)),
        whole(Some(Whose::Codex)),
    );
    Section {
        title: "Where the time of a message goes".to_owned(),
        words: words(lives.len(), ours, codex, all, &pieces),
        tables: vec![table(&pieces), commits(lives)],
        plots: vec![Plot::Pieces {
            file: "where-the-time-goes",
            title: "From the stored row to the visible bubble (medians)".to_owned(),
            unit: "ms",
            pieces: pieces.iter().map(Spanned::shown).collect(),
        }],
        ratios: vec![Ratio {
            key: "traces.whole_to_codex".to_owned(),
            words: "whole way of a message against Codex's part of it".to_owned(),
            value: if codex > 0.0 { all / codex } else { 0.0 },
        }],
        bars: Vec::new(),
    }
}

/// A piece and how long it took.
struct Spanned {
    cut: &'static Cut,
    spread: Spread,
}

impl Spanned {
    fn shown(&self) -> Piece {
        Piece {
            label: self.cut.label.to_owned(),
            value: self.spread.p50,
            whose: self.cut.whose,
        }
    }

    fn is_to_be_explained(&self) -> bool {
        self.cut.whose == Whose::Ours && self.spread.p50 > EXPLAINED_FROM_MS
    }
}

fn pieces(lives: &[Life]) -> Vec<Spanned> {
    let cuts = CUTS.iter().zip(Moment::ALL);
    let spanned = cuts.map(|(cut, from)| {
        let times: Vec<Duration> = lives
            .iter()
            .map(|life| life.between(from, cut.to))
            .collect();
        Spanned {
            cut,
            spread: Spread::of(&times),
        }
    });
    spanned.collect()
}

fn words(lives: usize, ours: f64, codex: f64, all: f64, pieces: &[Spanned]) -> Vec<String> {
    let mut words = vec![format!(
        "{lives} messages from the canvas, one after the other, cut at the moments that the daemon's own log tells \
         (`CODEX_BRIDGE_LOG=info,bridge_trace=debug`, for every operator). The medians of the sums: {ours:.1} ms ours, \
         {codex:.1} ms Codex, {all:.1} ms in all; the rest is the platform's. What happens while Codex works \
         (`attach`, `note`) or after the bubble is visible (`confirm`) holds nobody up."
    )];
    let long: Vec<&Spanned> = pieces
        .iter()
        .filter(|one| one.is_to_be_explained())
        .collect();
    words.push(match long.is_empty() {
        true => "No piece of ours takes more than 1 ms at the median.".to_owned(),
        false => {
            let explained = long.iter().map(|one| {
                let (label, p50, why) = (one.cut.label, one.spread.p50, one.cut.why);
                format!("- {label}, {p50:.1} ms: {why}.")
            });
            let list = explained.collect::<Vec<String>>().join("\n");
            format!("Ours above 1 ms at the median, and why:\n\n{list}")
        }
    });
    words
}

fn table(pieces: &[Spanned]) -> Table {
    let row = |one: &Spanned| {
        let whose = match one.cut.whose {
            Whose::Ours => "ours",
            Whose::Codex => "Codex",
            Whose::Other => "platform",
        };
        vec![
            one.cut.label.to_owned(),
            format!("{:.2}", one.spread.p50),
            format!("{:.2}", one.spread.p95),
            whose.to_owned(),
        ]
    };
    Table {
        title: "Piece by piece, in ms".to_owned(),
        head: ["piece", "p50", "p95", "whose"].map(str::to_owned).to_vec(),
        rows: pieces.iter().map(row).collect(),
    }
}

/// Every commit of the messages' lives, by its transition.
fn commits(lives: &[Life]) -> Table {
    let mut by_name: BTreeMap<&str, Vec<&Commit>> = BTreeMap::new();
    for commit in lives.iter().flat_map(|life| &life.commits) {
        by_name.entry(&commit.transition).or_default().push(commit);
    }
    let row = |(name, commits): (&str, Vec<&Commit>)| {
        let waited: Vec<Duration> = commits.iter().map(|commit| commit.waited).collect();
        let took: Vec<Duration> = commits.iter().map(|commit| commit.took).collect();
        let (waited, took) = (Spread::of(&waited), Spread::of(&took));
        #[expect(clippy::cast_precision_loss, reason = "a few hundred commits")]
        let each = commits.len() as f64 / lives.len().max(1) as f64;
        vec![
            name.to_owned(),
            format!("{each:.1}"),
            format!("{:.2}", waited.p50),
            format!("{:.2}", took.p50),
            format!("{:.2}", took.p95),
        ]
    };
    Table {
        title: "Commits, in ms".to_owned(),
        head: [
            "transition",
            "per message",
            "waited p50",
            "took p50",
            "took p95",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: by_name.into_iter().map(row).collect(),
    }
}
