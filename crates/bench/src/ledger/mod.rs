//! The ledger alone: whole lives of messages per second, durable, from one conversation to many, and with finished
//! messages behind it. Codex and the platform answer at once.
//!
//! What a life consists of is in `bridge-hot`; what it must reach is in `bars`.

pub(crate) mod crowd;
mod growth;
mod place;
mod questions;

use crate::bars;
use crate::ground::Ground;
use crate::plan::Plan;
use crate::section::{Axis, Curve, Plot, Ratio, Section, Table, Whose};
use crate::stats::median;
use crowd::Round;
use growth::{CONVERSATIONS, Point};
use place::Place;
use questions::{Asked, LITTLE};

/// One number of conversations on a new ledger.
struct Width {
    conversations: u64,
    rounds: Vec<Round>,
}

impl Width {
    fn rate(&self) -> f64 {
        median(&self.rounds.iter().map(Round::rate).collect::<Vec<_>>())
    }

    fn per_message(&self, of: fn(&Round) -> u64) -> f64 {
        let each = |round: &Round| of(round) as f64 / round.messages as f64;
        median(&self.rounds.iter().map(each).collect::<Vec<_>>())
    }
}

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let plan = &ground.plan;
    let place = Place::beside(&ground.bridge)?;
    let widths = widths(&place, plan).await?;
    let mut points = Vec::new();
    for behind in &plan.behind {
        points.push(growth::measure(&place, plan, *behind).await?);
    }
    let asked = match plan.behind.iter().max() {
        Some(most) if *most > LITTLE => questions::measure(&place, *most).await?,
        Some(_) | None => Vec::new(),
    };
    Ok(section(&place, &widths, &points, &asked))
}

/// All numbers of conversations in turn, round by round.
async fn widths(place: &Place, plan: &Plan) -> anyhow::Result<Vec<Width>> {
    let new = |conversations: &u64| Width {
        conversations: *conversations,
        rounds: Vec::new(),
    };
    let mut widths: Vec<Width> = plan.writers.iter().map(new).collect();
    for _ in 0..plan.ledger_rounds {
        for width in &mut widths {
            let each = growth::each(plan, width.conversations);
            let round = growth::fresh(place, width.conversations, each).await?;
            width.rounds.push(round);
        }
    }
    Ok(widths)
}

fn section(place: &Place, widths: &[Width], points: &[Point], asked: &[Asked]) -> Section {
    let widest = widths.iter().max_by_key(|width| width.conversations);
    let furthest = points.iter().max_by_key(|point| point.behind);
    let mut bars = Vec::new();
    bars.extend(widest.map(|width| bars::lives_per_second(width.rate())));
    bars.extend(furthest.map(|point| bars::rate_with_history(point.ratio(), point.behind)));
    Section {
        title: "The ledger".to_owned(),
        words: words(place, widest),
        tables: vec![
            table_of_widths(widths),
            table_of_points(points),
            table_of_questions(asked, points),
        ],
        plots: plots(widths, points),
        ratios: ratios(widths, points),
        bars,
    }
}

fn words(place: &Place, widest: Option<&Width>) -> Vec<String> {
    let transitions = widest.map_or(0.0, |width| width.per_message(|round| round.transitions));
    vec![
        format!(
            "Whole lives of messages through the ledger in one process, with the settings of the daemon (SQLite, WAL, `synchronous = FULL`), on {}. A life is what the daemon writes for a plain answer of a model that thinks: receive, claim, begin, attach, one note, answer, send, confirm, with the reads that the daemon makes between them (the message, its conversation, whether the lane has more); a thread is bound once per conversation. One scheduler claims for all conversations, as in the daemon, and looks once more when nothing is left. With {CONVERSATIONS} conversations that is {transitions:.1} transitions per message, each of which waits until it is on disk. The time of a round includes moving the log into the file at its end.",
            place.kind
        ),
        "Finished messages are not lived through but copied in SQL from one that was, with other ids, conversations and times; that a copy has as many rows in every table is checked. Platform ids are scattered as the real ones are. Rounds in front of a history and rounds of a ledger that began empty take turns and leave their own messages in both, so that the history is all that differs; each number is a median of rounds, and a ratio the median over neighbours, because the speed of a machine changes from one second to the next.".to_owned(),
    ]
}

fn table_of_widths(widths: &[Width]) -> Table {
    let row = |width: &Width| {
        let transitions = width.per_message(|round| round.transitions);
        let commits = width.per_message(|round| round.commits);
        vec![
            width.conversations.to_string(),
            format!("{:.0}", width.rate()),
            format!("{transitions:.1}"),
            format!("{commits:.2}"),
        ]
    };
    Table {
        title: "Whole lives per second on a new file".to_owned(),
        head: [
            "conversations",
            "messages/s",
            "transitions each",
            "commits each",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: widths.iter().map(row).collect(),
    }
}

fn table_of_points(points: &[Point]) -> Table {
    let row = |point: &Point| {
        vec![
            point.behind.to_string(),
            format!("{:.0}", point.rate()),
            format!("{:.0}", point.without()),
            format!("{:.2}", point.ratio()),
            format!("{:.0}", point.bytes as f64 / (1024.0 * 1024.0)),
            point.pairs.len().to_string(),
        ]
    };
    Table {
        title: format!("{CONVERSATIONS} conversations with finished messages behind them"),
        head: [
            "finished messages",
            "messages/s",
            "began empty, in turn",
            "ratio",
            "file, MiB",
            "rounds",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: points.iter().map(row).collect(),
    }
}

fn table_of_questions(asked: &[Asked], points: &[Point]) -> Table {
    let behind = points.last().map_or(0, |point| point.behind);
    let row = |asked: &Asked| {
        vec![
            asked.words.to_owned(),
            format!("{:.2}", asked.without),
            format!("{:.2}", asked.with),
        ]
    };
    Table {
        title: "What fronts ask, in ms".to_owned(),
        head: vec![
            "question".to_owned(),
            format!("with {LITTLE} finished messages"),
            format!("with {behind} finished messages"),
        ],
        rows: asked.iter().map(row).collect(),
    }
}

fn ratios(widths: &[Width], points: &[Point]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    if let (Some(first), Some(last)) = (widths.first(), widths.last()) {
        let (few, many) = (first.conversations, last.conversations);
        ratios.push(Ratio {
            key: format!("ledger.{many}_to_{few}"),
            words: format!("lives per second, {many} conversations against {few}"),
            value: beside(last, first),
        });
    }
    ratios.extend(points.iter().filter(|point| point.behind > 0).map(|point| {
        let behind = point.behind;
        Ratio {
            key: format!("ledger.behind_{behind}"),
            words: format!("lives per second, {behind} finished messages behind against none"),
            value: point.ratio(),
        }
    }));
    ratios
}

/// How many times as fast as another number of conversations, round by round.
fn beside(width: &Width, other: &Width) -> f64 {
    let pairs = width.rounds.iter().zip(&other.rounds);
    median(
        &pairs
            .map(|(one, other)| one.rate() / other.rate())
            .collect::<Vec<_>>(),
    )
}

fn plots(widths: &[Width], points: &[Point]) -> Vec<Plot> {
    let axis = |label: &str, logarithmic| Axis {
        label: label.to_owned(),
        logarithmic,
    };
    let by_width = widths
        .iter()
        .map(|width| (width.conversations as f64, width.rate()));
    let behind = |of: fn(&Point) -> f64| {
        // A logarithm has no zero: none behind is shown as one.
        let points = points
            .iter()
            .map(|point| (point.behind.max(1) as f64, of(point)));
        points.collect::<Vec<_>>()
    };
    let curve = |label: &str, points: Vec<(f64, f64)>, whose| Curve {
        label: label.to_owned(),
        points,
        whose,
    };
    vec![
        Plot::Curves {
            file: "ledger-conversations.svg",
            title: "Whole lives per second, durable, on a new file".to_owned(),
            x: axis("conversations at the same time", true),
            y: axis("messages per second", false),
            curves: vec![curve("ledger", by_width.collect(), Whose::Ours)],
            bar: Some((
                bars::lives_per_second(0.0).limit.number(),
                "at least, with 64 conversations".to_owned(),
            )),
        },
        Plot::Curves {
            file: "ledger-history.svg",
            title: format!("{CONVERSATIONS} conversations with finished messages behind them"),
            x: axis("finished messages behind", true),
            y: axis("messages per second", false),
            curves: vec![
                curve("with them", behind(Point::rate), Whose::Ours),
                curve("began empty, in turn", behind(Point::without), Whose::Other),
            ],
            bar: None,
        },
    ]
}
