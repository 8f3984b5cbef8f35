//! The figures as a table, for people and for an ADR.

use std::fmt::Write;
use std::time::Duration;

/// How long each message took.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// Until it was claimed.
    pub(crate) claimed: Vec<Duration>,
    /// Until its answer was seen.
    pub(crate) seen: Vec<Duration>,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Whether the platform's events woke the daemon.
    pub(crate) wake: bool,
    pub(crate) times: Times,
}

/// All lines, and how much sooner the events are than polling.
pub(crate) fn show(rows: &[Row]) -> String {
    let mut text = String::new();
    let _never = writeln!(
        text,
        "\nFrom the stored row to claimed, and to the answer on the canvas, in ms\n\n\
         | mode | n | claimed p50 | p95 | max | answer seen p50 | p95 | max |\n\
         | --- | --: | --: | --: | --: | --: | --: | --: |"
    );
    for Row { name, times, .. } in rows {
        let _never = write!(text, "| {name} | {} |", times.claimed.len());
        for times in [&times.claimed, &times.seen] {
            for share in [50, 95, 100] {
                let _never = write!(text, " {:.1} |", ms(rank(times, share)));
            }
        }
        text.push('\n');
    }
    let median = |wake: bool| {
        let mut found = rows.iter().filter(|row| row.wake == wake);
        let medians = found.next().map(|row| ms(rank(&row.times.claimed, 50)));
        medians.filter(|ms| *ms > 0.0)
    };
    if let (Some(events), Some(polling)) = (median(true), median(false)) {
        let _never = writeln!(
            text,
            "\nMedians of polling and of the first line: {:.0} to 1",
            polling / events
        );
    }
    text
}

/// The shortest time that so many of a hundred did not exceed.
fn rank(times: &[Duration], share: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    let place = (times.len() * share).div_ceil(100).saturating_sub(1);
    times.get(place).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
