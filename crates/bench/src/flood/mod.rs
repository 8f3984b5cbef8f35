//! One turn in very many pieces: how fast it comes through the daemon, alone and while people watch it, against a bare
//! client that reads the same; and what it leaves in the daemon's memory.

mod tell;
mod watch;

use crate::ground::Ground;
use crate::section::Section;
use crate::stage::Place;
use crate::stage::app_server::AppServer;
use crate::stage::process::{self, Reading};
use crate::stage::served::{Served, Ticks};
use crate::stage::socket::Socket;
use anyhow::ensure;
use serde_json::json;
use std::time::{Duration, Instant};
use watch::{Reader, Seen};

/// Turns that may run at the same time.
const TURNS: usize = 16;

/// Who watches a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Nobody,
    /// One who reads everything at once.
    Reader,
    /// Such a one, and one who stops reading.
    SleeperToo,
}

impl Watched {
    const ALL: [Self; 3] = [Self::Nobody, Self::Reader, Self::SleeperToo];
}

/// One flood through the daemon.
#[derive(Clone, Copy, Debug)]
struct Flood {
    watched: Watched,
    took: Duration,
    /// Processor time of bridge and keeper, and of their Codex.
    spent: Ticks,
    /// The daemon's memory: the most while it ran, and afterwards.
    peak_mib: f64,
    after_mib: f64,
    /// What the reader was told, if there was one.
    seen: Seen,
}

#[derive(Clone, Debug)]
struct Floods {
    deltas: u64,
    /// The daemon's memory when it had answered one message, and when floods had filled SQLite's page caches.
    fresh_mib: f64,
    full_mib: f64,
    /// How many floods that were.
    filling: usize,
    ours: Vec<Flood>,
    bare: Vec<Duration>,
}

struct Scene {
    served: Served,
    socket: Socket,
    bare: AppServer,
    /// Where the bare one lives.
    _place: Place,
    deltas: u64,
    /// All that the model says.
    whole: String,
    /// Floods so far: every one has a gate and a thread of its own.
    number: usize,
}

pub(crate) async fn measure(ground: &Ground) -> anyhow::Result<Section> {
    let mut scene = Scene::open(ground).await?;
    let fresh_mib = scene.memory()?;
    for _ in 0..ground.plan.filling_floods {
        scene.flood(Watched::Nobody).await?;
    }
    let full_mib = scene.memory()?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ground.plan.floods {
        bare.push(scene.bare_flood().await?);
        for watched in Watched::ALL {
            ours.push(scene.flood(watched).await?);
        }
    }
    scene.bare.stop().await?;
    scene.served.stop().await?;
    let floods = Floods {
        deltas: ground.plan.deltas,
        fresh_mib,
        full_mib,
        filling: ground.plan.filling_floods,
        ours,
        bare,
    };
    Ok(floods.section())
}

impl Scene {
    async fn open(ground: &Ground) -> anyhow::Result<Self> {
        let served = Served::start(ground, TURNS).await?;
        let place = Place::new(&served.model.codex_config())?;
        let mut bare = AppServer::start(&ground.codex, &place).await?;
        // What a first turn leaves behind is not the flood's.
        served.ask(&["warm".to_owned()], "warm").await?;
        let thread = bare.thread(json!({})).await?;
        bare.turn(&thread, "echo:warm").await?;
        let words: Vec<String> = (0..ground.plan.deltas).map(|n| format!("w{n}")).collect();
        Ok(Self {
            socket: Socket::of(&served.daemon)?,
            served,
            bare,
            _place: place,
            deltas: ground.plan.deltas,
            whole: words.join(" "),
            number: 0,
        })
    }

    fn memory(&self) -> anyhow::Result<f64> {
        Ok(Reading::of(&[self.served.daemon.pid()?])?.rss_mib)
    }

    /// The next gate, and a text whose flood begins when it opens.
    fn next(&mut self) -> (String, String) {
        self.number += 1;
        let gate = format!("flood-{}", self.number);
        let text = format!("hold:{gate} stream:{}:0", self.deltas);
        (gate, text)
    }

    async fn bare_flood(&mut self) -> anyhow::Result<Duration> {
        let (gate, text) = self.next();
        let thread = self.bare.thread(json!({})).await?;
        let model = &self.served.model;
        let opening = async {
            model.wait_held(&gate).await?;
            let began = Instant::now();
            model.release(&gate);
            Ok::<_, anyhow::Error>(began)
        };
        let turning = async {
            let turn = self.bare.turn(&thread, &text).await?;
            Ok::<_, anyhow::Error>((turn, Instant::now()))
        };
        let (began, (turn, ended)) = tokio::try_join!(opening, turning)?;
        ensure!(
            turn.text.trim_end() == self.whole,
            "a bare flood is not whole"
        );
        Ok(ended.duration_since(began))
    }

    async fn flood(&mut self, watched: Watched) -> anyhow::Result<Flood> {
        let (gate, text) = self.next();
        let pid = self.served.daemon.pid()?;
        let rows = self.served.say(&[(gate.clone(), text)])?;
        self.served.model.wait_held(&gate).await?;
        let message_id = self.socket.newest().await?;
        let reader = match watched {
            Watched::Nobody => None,
            Watched::Reader | Watched::SleeperToo => {
                Some(Reader::start(&self.socket, &message_id).await?)
            }
        };
        let sleeper = match watched {
            Watched::Nobody | Watched::Reader => None,
            Watched::SleeperToo => {
                let mut events = self.socket.watch(&message_id).await?;
                events.next().await?;
                Some(events)
            }
        };
        process::forget_peak(pid)?;
        let party = self.served.party()?;
        let before = party.ticks();
        let began = Instant::now();
        self.served.model.release(&gate);
        let answered = self.served.answered(&rows, &self.whole).await?;
        let took = answered.duration_since(began);
        let seen = match reader {
            Some(reader) => reader.end(&self.whole).await?,
            None => Seen::default(),
        };
        let peak_mib = process::peak_mib(pid)?;
        drop(sleeper);
        Ok(Flood {
            watched,
            took,
            spent: party.ticks().since(before),
            peak_mib,
            after_mib: self.memory()?,
            seen,
        })
    }
}
