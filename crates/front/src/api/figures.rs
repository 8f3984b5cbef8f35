//! Figures of the last hours, from the rows of finished messages: how many answers, how soon, for whom, and what failed.

use super::extract::Params;
use super::{Context, ProblemResponse};
use crate::{BridgeService, Time};
use axum::Json;
use axum::extract::State;
use bridge_core::limits::FIGURES_SCAN_MAX;
use bridge_core::port::{FinishedMessage, RowsError};
use bridge_core::value::{StateName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

const HOURS_DEFAULT: u32 = 24;
const HOURS_MAX: u32 = 168;
const HOUR_MS: i64 = 3_600_000;
/// Senders that are shown.
const SENDERS_MAX: usize = 50;

/// Answer to `GET /v1/figures`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutcomesView {
    /// When the first hour begins.
    pub since: Time,
    /// Every hour, the present one last.
    pub hours: Vec<HourView>,
    /// All of them together.
    pub total: OutcomeCounts,
    /// Senders whose messages ended, by tokens, at most 50.
    pub senders: Vec<SenderFigures>,
    /// Failed messages by the class of what failed.
    pub failures: Vec<FailureFigures>,
    /// Only the newest 20,000 messages of an end were looked at, and there are more.
    pub cut: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HourView {
    /// When it begins.
    pub at: Time,
    #[serde(flatten)]
    pub ends: OutcomeCounts,
}

/// How many messages ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeCounts {
    /// Answered, and the answer delivered.
    pub answered: u64,
    /// Failed.
    pub failed: u64,
    /// Stopped or given up by a person.
    pub stopped: u64,
    /// From arrival to answer, in milliseconds: half of the answered ones took at most so long.
    pub p50_ms: Option<i64>,
    /// The same of 95 in 100.
    pub p95_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SenderFigures {
    pub channel: String,
    pub sender: String,
    /// Messages that ended, however.
    pub messages: u64,
    /// Tokens of all their turns.
    pub tokens: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureFigures {
    /// `transient`, `capacity`, `config`, `permanent`, `ambiguous` or `bug`; `unknown` where it is not kept.
    pub class: String,
    pub messages: u64,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureParams {
    /// How many hours, the present one included; 24 when absent.
    #[schemars(range(min = 1, max = HOURS_MAX))]
    hours: Option<u32>,
}

/// Messages of one end.
#[derive(Debug, Default)]
struct Finished {
    done: Vec<FinishedMessage>,
    dead: Vec<FinishedMessage>,
    cancelled: Vec<FinishedMessage>,
}

pub(super) async fn show<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Params(params): Params<FigureParams>,
) -> Result<Json<OutcomesView>, ProblemResponse> {
    let hours = params.hours.unwrap_or(HOURS_DEFAULT).clamp(1, HOURS_MAX);
    let since = first_hour(service.now(), hours);
    let found = service.read(move |rows| -> Result<OutcomesView, RowsError> {
        let found = Finished {
            done: rows.finished_since(StateName::Done, since)?,
            dead: rows.finished_since(StateName::Dead, since)?,
            cancelled: rows.finished_since(StateName::Cancelled, since)?,
        };
        Ok(figures(&found, since, hours))
    });
    Ok(Json(found.await?))
}

/// When the first of so many hours begins.
fn first_hour(now: Timestamp, hours: u32) -> Timestamp {
    let into_the_hour = now.0.rem_euclid(HOUR_MS);
    let before = i64::from(hours.saturating_sub(1)).saturating_mul(HOUR_MS);
    now.plus_ms(into_the_hour.saturating_add(before).saturating_neg())
}

fn figures(found: &Finished, since: Timestamp, hours: u32) -> OutcomesView {
    let mut by_hour: Vec<Outcomes> = Vec::new();
    by_hour.resize_with(usize::try_from(hours).unwrap_or(0), Outcomes::default);
    let mut total = Outcomes::default();
    let all = [&found.done, &found.dead, &found.cancelled];
    for (end, messages) in all.into_iter().enumerate() {
        for one in messages {
            total.add(end, one);
            let hour = one.ended_at.since_ms(since).div_euclid(HOUR_MS);
            let hour = usize::try_from(hour).ok();
            if let Some(hour) = hour.and_then(|hour| by_hour.get_mut(hour)) {
                hour.add(end, one);
            }
        }
    }
    let hours = (0_i64..).zip(by_hour).map(|(hour, outcomes)| HourView {
        at: since.plus_ms(hour.saturating_mul(HOUR_MS)).into(),
        ends: outcomes.counts(),
    });
    let reach = FIGURES_SCAN_MAX as usize;
    OutcomesView {
        since: since.into(),
        hours: hours.collect(),
        total: total.counts(),
        senders: by_sender(all.into_iter().flatten()),
        failures: by_class(&found.dead),
        cut: all.iter().any(|messages| messages.len() >= reach),
    }
}

/// The messages of an hour, as they are counted.
#[derive(Debug, Default)]
struct Outcomes {
    /// Done, dead and cancelled.
    ends: [u64; 3],
    /// How long each answer took.
    took: Vec<i64>,
}

impl Outcomes {
    fn add(&mut self, end: usize, one: &FinishedMessage) {
        if let Some(count) = self.ends.get_mut(end) {
            *count = count.saturating_add(1);
        }
        let answered = one.answered_at.filter(|_| end == 0);
        let took = answered.map(|at| at.since_ms(one.received_at).max(0));
        self.took.extend(took);
    }

    fn counts(mut self) -> OutcomeCounts {
        self.took.sort_unstable();
        let [answered, failed, stopped] = self.ends;
        OutcomeCounts {
            answered,
            failed,
            stopped,
            p50_ms: percentile(&self.took, 50),
            p95_ms: percentile(&self.took, 95),
        }
    }
}

/// The smallest value that so many in 100 do not exceed.
fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

fn by_sender<'m>(messages: impl Iterator<Item = &'m FinishedMessage>) -> Vec<SenderFigures> {
    let mut senders: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for one in messages {
        let known = senders.entry((one.channel.as_str(), &one.sender));
        let (messages, tokens) = known.or_default();
        *messages = messages.saturating_add(1);
        *tokens = tokens.saturating_add(one.tokens);
    }
    let figures = senders.into_iter().map(|((channel, sender), used)| {
        let (messages, tokens) = used;
        SenderFigures {
            channel: channel.to_owned(),
            sender: sender.to_owned(),
            messages,
            tokens,
        }
    });
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by_key(|one| Reverse((one.tokens, one.messages)));
    figures.truncate(SENDERS_MAX);
    figures
}

fn by_class(dead: &[FinishedMessage]) -> Vec<FailureFigures> {
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for one in dead {
        let known = classes.entry(one.class.as_deref().unwrap_or("unknown"));
        let count = known.or_default();
        *count = count.saturating_add(1);
    }
    let figures = classes.into_iter().map(|(class, messages)| FailureFigures {
        class: class.to_owned(),
        messages,
    });
    figures.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::{ChannelId, MessageId};

    fn ended(n: i64, hour: i64, took: Option<i64>) -> FinishedMessage {
        let received_at = Timestamp(hour * HOUR_MS);
        FinishedMessage {
            message_id: MessageId::new(format!("m{n}")),
            channel: ChannelId::new("local"),
            sender: "ann".to_owned(),
            received_at,
            ended_at: received_at.plus_ms(1_000),
            answered_at: took.map(|ms| received_at.plus_ms(ms)),
            class: None,
            tokens: 10,
        }
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), Some(50));
        assert_eq!(percentile(&hundred, 95), Some(95));
        assert_eq!(percentile(&[7], 95), Some(7));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn hours_are_whole_and_add_up() {
        let now = Timestamp(10 * HOUR_MS + 5);
        let since = first_hour(now, 3);
        assert_eq!(since, Timestamp(8 * HOUR_MS));
        let found = Finished {
            done: vec![
                ended(1, 8, Some(100)),
                ended(2, 8, Some(300)),
                ended(3, 10, None),
            ],
            dead: vec![ended(4, 9, None)],
            cancelled: Vec::new(),
        };
        let view = figures(&found, since, 3);
        let hours: Vec<_> = view.hours.iter().map(|hour| hour.ends.answered).collect();
        assert_eq!(hours, [2, 0, 1]);
        assert_eq!(view.hours[1].ends.failed, 1);
        let first = view.hours[0].ends;
        assert_eq!((first.p50_ms, first.p95_ms), (Some(100), Some(300)));
        assert_eq!(view.hours[2].ends.p50_ms, None);
        assert_eq!((view.total.answered, view.total.failed), (3, 1));
        assert_eq!((view.senders[0].messages, view.senders[0].tokens), (4, 40));
        assert_eq!(view.failures[0].class, "unknown");
        assert!(!view.cut);
    }
}
