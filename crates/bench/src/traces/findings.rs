//! From lives to tables, a plot and words: whose each piece is, and why one of ours takes the time it takes.

use super::life::{Commit, Life, Moment};
use crate::section::{Piece, Plot, Ranked, Ratio, Section, Table, Whose};
use crate::stats::{Spread, median, millis};
use std::collections::BTreeMap;
use std::time::Duration;

/// A piece of ours above this is explained on the page.
const EXPLAINED_FROM_MS: f64 = 1.0;
/// Digits of a millisecond that a reader of these tables needs.
const DIGITS: usize = 2;

/// One piece of a life: from a moment to the next one.
struct Cut {
    to: Moment,
    label: &'static str,
    share: Share,
}

/// Whose time a piece is, as far as the log can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Ours {
        /// For a reader who asks why it is not nothing.
        why: &'static str,
        /// The transition that is put on disk in it.
        commit: Option<&'static str>,
    },
    Codex,
    /// The platform's and ours, in one: the log has no moment between them.
    Both {
        what: &'static str,
    },
}

impl Share {
    /// The colour.
    fn whose(self) -> Whose {
        match self {
            Self::Ours { .. } => Whose::Ours,
            Self::Codex => Whose::Codex,
            Self::Both { .. } => Whose::Other,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Ours { .. } => "ours",
            Self::Codex => "Codex",
            Self::Both { .. } => "platform and ours",
        }
    }
}

const fn ours(
    to: Moment,
    label: &'static str,
    commit: Option<&'static str>,
    why: &'static str,
) -> Cut {
    let share = Share::Ours { why, commit };
    Cut { to, label, share }
}

const fn codex(to: Moment, label: &'static str) -> Cut {
    let share = Share::Codex;
    Cut { to, label, share }
}

const fn both(to: Moment, label: &'static str, what: &'static str) -> Cut {
    let share = Share::Both { what };
    Cut { to, label, share }
}

const CUTS: [Cut; 14] = [
    both(
        Moment::Heard,
        "platform and us: event heard",
        "the platform sends its event, and we read it",
    ),
    both(
        Moment::Page,
        "platform and us: feed asked and read",
        "our reader wakes and asks, the platform answers, and we parse the page",
    ),
    ours(
        Moment::Received,
        "message on disk (receive)",
        Some("receive_page"),
        "a message that was taken in is never lost, so it is on disk before anything else",
    ),
    ours(
        Moment::Claimed,
        "scheduled and claimed",
        Some("claim"),
        "an attempt is counted before it is made, so that a message that kills the daemon is given up after three of them",
    ),
    ours(
        Moment::Ready,
        "row loaded, thread found",
        None,
        "reads of the ledger; Codex is not asked anything when the thread is loaded",
    ),
    ours(
        Moment::Begun,
        "turn on disk (begin)",
        Some("begin"),
        "the intent is on disk before Codex hears of it, or a crash would pay twice",
    ),
    ours(
        Moment::Written,
        "turn/start written",
        None,
        "the request is made and goes to the task that writes to Codex",
    ),
    codex(Moment::Started, "Codex: turn/start answered"),
    codex(Moment::Text, "Codex: first words"),
    codex(Moment::Completed, "Codex: turn/completed"),
    ours(
        Moment::Ended,
        "follower hears of it",
        Some("note"),
        "the end waits behind what the turn told before it",
    ),
    ours(
        Moment::Answered,
        "answer on disk (answer)",
        Some("answer"),
        "after it Codex is never asked again for this message",
    ),
    ours(
        Moment::Handed,
        "sending on disk (send)",
        Some("send"),
        "a reply that may have been shown is looked for before it is sent again",
    ),
    both(
        Moment::Seen,
        "platform and us: reply sent and seen",
        "we make the request and send it, and the platform takes it and shows the bubble",
    ),
];

pub(super) fn section(lives: &[Life]) -> Section {
    let pieces = pieces(lives);
    let sums = Sums::of(lives);
    Section {
        title: "Where the time of a message goes".to_owned(),
        words: words(lives, &sums, &pieces),
        tables: vec![table(&pieces), commits(lives)],
        plots: vec![Plot::Pieces {
            file: "where-the-time-goes.svg",
            title: "From the stored row to the visible bubble (medians)".to_owned(),
            unit: "ms",
            pieces: pieces.iter().map(Spanned::shown).collect(),
        }],
        ratios: vec![Ratio {
            key: "traces.whole_to_codex".to_owned(),
            words: "whole way of a message against Codex's part of it".to_owned(),
            value: if sums.codex > 0.0 {
                sums.all / sums.codex
            } else {
                0.0
            },
        }],
        bars: Vec::new(),
    }
}

/// What the pieces of one kind take together, and the whole way: medians over the lives, in ms.
struct Sums {
    ours: f64,
    codex: f64,
    both: f64,
    all: f64,
}

impl Sums {
    fn of(lives: &[Life]) -> Self {
        let sum = |whose: Whose| {
            let sums = lives.iter().map(|life| {
                let cuts = CUTS.iter().zip(Moment::ALL);
                let counted = cuts.filter(|(cut, _)| cut.share.whose() == whose);
                let times = counted.map(|(cut, from)| millis(life.between(from, cut.to)));
                times.sum::<f64>()
            });
            median(&sums.collect::<Vec<f64>>())
        };
        let whole = |life: &Life| millis(life.between(Moment::Stored, Moment::Seen));
        Self {
            ours: sum(Whose::Ours),
            codex: sum(Whose::Codex),
            both: sum(Whose::Other),
            all: median(&lives.iter().map(whole).collect::<Vec<f64>>()),
        }
    }
}

/// A piece and how long it took.
struct Spanned {
    cut: &'static Cut,
    from: Moment,
    spread: Spread,
}

impl Spanned {
    fn shown(&self) -> Piece {
        Piece {
            label: self.cut.label.to_owned(),
            value: self.spread.p50,
            whose: self.cut.share.whose(),
        }
    }

    /// Why it takes so long, for one of ours that does.
    fn explained(&self, lives: &[Life]) -> Option<String> {
        let Share::Ours { why, commit } = self.cut.share else {
            return None;
        };
        let p50 = self.spread.p50;
        (p50 > EXPLAINED_FROM_MS).then(|| {
            let spent = commit.map(|name| self.spent(name, lives));
            let spent = spent.unwrap_or_default();
            format!("- {}, {p50:.1} ms: {why}{spent}.", self.cut.label)
        })
    }

    /// What its commit had of it.
    fn spent(&self, name: &str, lives: &[Life]) -> String {
        let found: Vec<(&Commit, Duration)> = lives
            .iter()
            .filter_map(|life| {
                let commit = life.commit(name, self.from, self.cut.to)?;
                Some((commit, life.between(self.from, self.cut.to)))
            })
            .collect();
        let middle = |time: fn(&(&Commit, Duration)) -> Duration| {
            let times = found.iter().map(|one| millis(time(one)));
            median(&times.collect::<Vec<f64>>())
        };
        let waited = middle(|(commit, _)| commit.waited);
        let took = middle(|(commit, _)| commit.took);
        let beside = middle(|(commit, all)| all.saturating_sub(commit.waited + commit.took));
        let spent = format!(
            "its commit `{name}` waited {waited:.2} ms for its turn and took {took:.2} ms with its fsync, and \
             {beside:.2} ms are beside it"
        );
        match found.len() {
            0 => format!("; no commit `{name}` ended in it"),
            all if all == lives.len() => format!("; {spent}"),
            some => format!("; in {some} of {} messages {spent}", lives.len()),
        }
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
            from,
            spread: Spread::of(&times),
        }
    });
    spanned.collect()
}

fn words(lives: &[Life], sums: &Sums, pieces: &[Spanned]) -> Vec<String> {
    let Sums {
        ours,
        codex,
        both,
        all,
    } = sums;
    let shared = CUTS.iter().filter_map(|cut| match cut.share {
        Share::Both { what } => Some(format!("- {}: {what}.", cut.label)),
        Share::Ours { .. } | Share::Codex => None,
    });
    let shared = shared.collect::<Vec<String>>().join("\n");
    let long: Vec<String> = pieces
        .iter()
        .filter_map(|one| one.explained(lives))
        .collect();
    vec![
        format!(
            "{} messages from the canvas, one after the other, cut at the moments that the daemon's own log tells \
             (`CODEX_BRIDGE_LOG=info,bridge_trace=debug`, for every operator). The medians of the sums: {ours:.1} ms \
             ours, {codex:.1} ms Codex, {both:.1} ms the platform's and ours together, {all:.1} ms from the stored \
             row to the visible bubble. What happens while Codex works (`attach`, `note`) or after the bubble is \
             visible (`confirm`) holds nobody up.",
            lives.len()
        ),
        format!(
            "The log has no moment between our part and the platform's where we speak with it, so these pieces are \
             of both, and what is ours in them is not in the sum of ours:\n\n{shared}"
        ),
        if long.is_empty() {
            format!("No piece of ours takes more than {EXPLAINED_FROM_MS} ms at the median.")
        } else {
            format!(
                "Ours above {EXPLAINED_FROM_MS} ms at the median, and why:\n\n{}",
                long.join("\n")
            )
        },
    ]
}

fn table(pieces: &[Spanned]) -> Table {
    let row = |one: &Spanned| Ranked {
        label: one.cut.label.to_owned(),
        spread: one.spread,
        more: vec![one.cut.share.as_str().to_owned()],
    };
    let rows: Vec<Ranked> = pieces.iter().map(row).collect();
    Table::of_spreads("Piece by piece, in ms", &["piece", "whose"], DIGITS, &rows)
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
        #[expect(clippy::cast_precision_loss, reason = "a few hundred commits")]
        let each = commits.len() as f64 / lives.len().max(1) as f64;
        Ranked {
            label: name.to_owned(),
            spread: Spread::of(&took),
            more: vec![
                format!("{:.2}", Spread::of(&waited).p50),
                format!("{each:.1}"),
            ],
        }
    };
    let rows: Vec<Ranked> = by_name.into_iter().map(row).collect();
    let title = "Commits, in ms: what each took with its fsync, and what it waited for its turn";
    let head = ["transition", "waited p50", "per message"];
    Table::of_spreads(title, &head, DIGITS, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::{SignedDuration, Timestamp};

    fn time(ms: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_millis(ms)
    }

    /// Ten milliseconds for each piece. Commits end with theirs, and those of `note` are left out.
    fn life() -> Life {
        let line = |ms: i64, words: &str| format!("{} DEBUG {words}", time(ms));
        let commit = |ms, name: &str| {
            let words = format!("at=\"commit\" transition=\"{name}\" waited_us=500 took_us=8000");
            line(ms, &words)
        };
        let lines = [
            line(10, "at=\"woken\""),
            line(20, "at=\"page\" rows=1"),
            commit(30, "receive_page"),
            commit(40, "claim"),
            line(40, "at=\"claimed\""),
            line(50, "at=\"ready\""),
            commit(60, "begin"),
            line(60, "at=\"begun\""),
            line(70, "at=\"written\""),
            line(80, "at=\"started\""),
            line(90, "at=\"text\""),
            line(100, "at=\"completed\""),
            line(110, "at=\"ended\""),
            commit(120, "answer"),
            commit(130, "send"),
            line(130, "at=\"handed\""),
        ];
        Life::read(&lines, time(0), time(140)).unwrap()
    }

    #[test]
    fn cuts_end_at_every_later_moment() {
        let ends: Vec<Moment> = CUTS.iter().map(|cut| cut.to).collect();
        assert_eq!(ends, Moment::ALL[1..]);
    }

    #[test]
    fn sums_span_stored_row_to_bubble() {
        let sums = Sums::of(&[life()]);
        assert_eq!(
            (sums.ours, sums.codex, sums.both, sums.all),
            (80.0, 30.0, 30.0, 140.0)
        );
    }

    #[test]
    fn long_cuts_are_explained_by_commits() {
        let lives = [life(), life()];
        let section = section(&lives);
        let list = section.words.last().unwrap();
        let explained: Vec<&str> = list.lines().filter(|line| line.starts_with('-')).collect();
        assert_eq!(explained.len(), 8, "{list}");
        for line in &explained {
            assert!(!line.contains(": .") && !line.contains(": ;"), "{line}");
        }
        let about = |label: &str| {
            let found = explained.iter().find(|line| line.contains(label));
            (*found.unwrap()).to_owned()
        };
        let begin = about("turn on disk");
        assert!(
            begin.contains("`begin` waited 0.50 ms") && begin.contains("took 8.00 ms"),
            "{begin}"
        );
        assert!(begin.contains("1.50 ms are beside it"), "{begin}");
        let heard = about("follower hears of it");
        assert!(heard.contains("no commit `note` ended in it"), "{heard}");
        assert!(about("turn/start written").contains("the request is made"));
    }

    #[test]
    fn section_names_shared_cuts_and_svg_plots() {
        let section = section(&[life()]);
        let words = section.words.join("\n");
        for cut in CUTS
            .iter()
            .filter(|cut| cut.share.as_str() == "platform and ours")
        {
            assert!(words.contains(cut.label), "{words}");
        }
        assert!(words.contains("30.0 ms the platform's and ours together"));
        let plots = &section.plots;
        assert!(plots.iter().all(|plot| plot.file().ends_with(".svg")));
    }
}
