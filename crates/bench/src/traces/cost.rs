//! What traces cost: three daemons that answer in turn, two without traces, whose difference is the noise, and one that
//! exports every message to a receiver on loopback.

use super::Ground;
use crate::section::{Bar, Limit, Ranked, Ratio, Section, Table};
use crate::stage::Place;
use crate::stage::canvas::{Canvas, Hearing};
use crate::stage::process;
use crate::stats::Spread;
use anyhow::Context;
use bridge_sim::{Options, ScriptedModel};
use nix::unistd::{SysconfVar, sysconf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The most that the traces of one message may cost the daemon, in milliseconds of processor time.
const COST_MAX_MS: f64 = 1.0;
/// Digits of a millisecond that a reader needs.
const DIGITS: usize = 2;
const TICKS_PER_SECOND: f64 = 100.0;

/// A daemon and what it took for its messages.
struct Side {
    name: &'static str,
    canvas: Canvas,
    times: Vec<Duration>,
    ticks: u64,
}

impl Side {
    async fn start(
        ground: &Ground,
        place: &Place,
        name: &'static str,
        settings: &str,
    ) -> anyhow::Result<Self> {
        let canvas = Canvas::start(ground, place, Hearing::Events, settings, None).await?;
        Ok(Self {
            name,
            canvas,
            times: Vec::new(),
            ticks: 0,
        })
    }

    fn used(&self) -> anyhow::Result<u64> {
        let pid = self.canvas.daemon.pid()?;
        process::ticks(pid).context("read the processor time of the daemon")
    }

    /// Processor time per message, in milliseconds.
    fn cost(&self, per_second: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let (ticks, messages) = (self.ticks as f64, self.times.len().max(1) as f64);
        ticks * 1_000.0 / per_second / messages
    }
}

pub(super) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let model = ScriptedModel::start(Options::default()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let on = format!("telemetry.otlp = \"http://{}\"\n", listener.local_addr()?);
    let bytes = Arc::new(AtomicUsize::new(0));
    let receiving = tokio::spawn(receive(listener, Arc::clone(&bytes)));
    let config = model.codex_config();
    let places = [
        Place::new(&config)?,
        Place::new(&config)?,
        Place::new(&config)?,
    ];
    let mut sides = [
        Side::start(ground, &places[0], "off", "").await?,
        Side::start(ground, &places[1], "off, once more", "").await?,
        Side::start(ground, &places[2], "on", &on).await?,
    ];
    for number in 0..ground.plan.warm_rounds + ground.plan.traced {
        if number == ground.plan.warm_rounds {
            for side in &mut sides {
                side.ticks = side.used()?;
            }
        }
        for side in &mut sides {
            tokio::time::sleep(ground.plan.gap).await;
            let answer = format!("told {number}");
            let took = side.canvas.says(&format!("echo:{answer}"), &answer).await?;
            if number >= ground.plan.warm_rounds {
                side.times.push(took);
            }
        }
    }
    for side in &mut sides {
        side.ticks = side.used()?.saturating_sub(side.ticks);
    }
    let section = section(&sides, bytes.load(Ordering::Relaxed));
    for side in sides {
        side.canvas.daemon.stop().await?;
    }
    receiving.abort();
    Ok(section)
}

fn section(sides: &[Side; 3], bytes: usize) -> Section {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    #[expect(clippy::cast_precision_loss, reason = "a hundred everywhere")]
    let per_second = per_second.map_or(TICKS_PER_SECOND, |ticks| ticks as f64);
    let [off, again, on] = sides;
    let (base, noise) = (off.cost(per_second), again.cost(per_second));
    let extra = on.cost(per_second) - f64::midpoint(base, noise);
    let rows = sides.iter().map(|side| Ranked {
        label: side.name.to_owned(),
        spread: Spread::of(&side.times),
        more: vec![format!("{:.2}", side.cost(per_second))],
    });
    let rows: Vec<Ranked> = rows.collect();
    let head = ["traces", "processor time per message"];
    Section {
        words: vec![format!(
            "Three daemons answer messages of a canvas in turn, {} each: two without traces, whose difference of {:.2} ms \
             of processor time per message is the noise, and one that exports to a receiver on loopback, which costs \
             {extra:.2} ms more, beside the way of its messages. The receiver was sent {} bytes per message.",
            on.times.len(),
            (base - noise).abs(),
            bytes / on.times.len().max(1),
        )],
        tables: vec![Table::of_spreads(
            "From the stored row to the visible bubble, in ms",
            &head,
            DIGITS,
            &rows,
        )],
        ratios: vec![Ratio {
            key: "traces.on_to_off".to_owned(),
            words: "way of a message with traces against without".to_owned(),
            value: rows[2].spread.p50 / rows[0].spread.p50.max(f64::MIN_POSITIVE),
        }],
        bars: vec![Bar {
            words: "processor time of a message's traces".to_owned(),
            measured: extra.max(0.0),
            limit: Limit::AtMost(COST_MAX_MS),
            unit: "ms",
        }],
        ..Section::default()
    }
}

/// Takes whatever comes, and counts its bytes.
async fn receive(listener: TcpListener, bytes: Arc<AtomicUsize>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, Arc::clone(&bytes)));
    }
}

async fn answer(mut stream: TcpStream, bytes: Arc<AtomicUsize>) {
    let mut read = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    while let Ok(more @ 1..) = stream.read(&mut chunk).await {
        bytes.fetch_add(more, Ordering::Relaxed);
        read.extend_from_slice(&chunk[..more]);
        let head = String::from_utf8_lossy(&read).to_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
        let body = read.windows(4).position(|four| four == b"\r\n\r\n");
        let (Some(length), Some(at)) = (length, body) else {
            continue;
        };
        if read.len() >= at + 4 + length {
            read.clear();
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}
