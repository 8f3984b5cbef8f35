//! Everything that the ways need, warm: one model, one bare app-server, one daemon with all its doors open, and a
//! session of `codex exec` for each of its two programs. Each Codex has a home of its own.

use super::exec;
use super::http::Http;
use super::mcp::Mcp;
use super::send::send;
use super::way::{Sample, Way};
use crate::ground::Ground;
use crate::stage::Place;
use crate::stage::app_server::AppServer;
use crate::stage::canvas::{Canvas, Hearing};
use anyhow::{Context, ensure};
use bridge_sim::{Options, ScriptedModel};
use serde_json::{Value, json};
use std::time::Instant;

/// The daemon listens for the API and A2A; everything else is as it comes.
const SETTINGS: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";
/// Messages of one A2A context: the loop guard lets a peer say 30 things in ten minutes there, so several contexts
/// take turns.
const CONTEXT_MAX: usize = 24;

pub(crate) struct Stage {
    ground: Ground,
    model: ScriptedModel,
    bare: AppServer,
    threads: Threads,
    canvas: Canvas,
    mcp: Mcp,
    http: Http,
    /// How many contexts each A2A way has.
    contexts: usize,
    sessions: Sessions,
    daemon_place: Place,
    exec_place: Place,
    _bare_place: Place,
}

struct Threads {
    usual: String,
    legacy: String,
    ephemeral: String,
}

struct Sessions {
    native: String,
    shim: String,
}

impl Stage {
    pub(crate) async fn set(ground: &Ground) -> anyhow::Result<Self> {
        let model = ScriptedModel::start(Options::default()).await?;
        let place = || Place::new(&model.codex_config());
        let (bare_place, daemon_place, exec_place) = (place()?, place()?, place()?);
        let mut bare = AppServer::start(&ground.codex, &bare_place).await?;
        let threads = Threads {
            usual: bare.thread(terms(json!({}))).await?,
            legacy: bare.thread(terms(json!({"historyMode": "legacy"}))).await?,
            ephemeral: bare.thread(terms(json!({"ephemeral": true}))).await?,
        };
        let canvas = Canvas::start(ground, &daemon_place, Hearing::Events, SETTINGS, None).await?;
        let mcp = Mcp::start(&canvas.daemon, &daemon_place).await?;
        let http = Http::start(&canvas.daemon, &daemon_place).await?;
        let sessions = Sessions {
            native: exec::begin(&ground.codex, &exec_place, "echo:native").await?,
            shim: exec::begin(&ground.shim, &exec_place, "echo:shim").await?,
        };
        Ok(Self {
            ground: ground.clone(),
            contexts: (ground.plan.rounds + ground.plan.warm_rounds).div_ceil(CONTEXT_MAX),
            model,
            bare,
            threads,
            canvas,
            mcp,
            http,
            sessions,
            daemon_place,
            exec_place,
            _bare_place: bare_place,
        })
    }

    /// Each context has had a turn before it is measured.
    pub(crate) async fn warm_contexts(&mut self) -> anyhow::Result<()> {
        for number in 0..self.contexts {
            for way in [Way::A2a, Way::A2aStream] {
                self.go(way, number).await?;
            }
        }
        Ok(())
    }

    /// One message by one way, after the pause that all of them have.
    pub(crate) async fn go(&mut self, way: Way, round: usize) -> anyhow::Result<Sample> {
        tokio::time::sleep(self.ground.plan.gap).await;
        let answer = format!("{} {round}", way.key());
        let text = format!("echo:{answer}");
        let gone = self.message(way, round, &text, &answer);
        let gone = gone.await.with_context(|| format!("{way:?}, {round}"))?;
        self.model.wait_idle().await?;
        Ok(gone)
    }

    async fn message(
        &mut self,
        way: Way,
        round: usize,
        text: &str,
        answer: &str,
    ) -> anyhow::Result<Sample> {
        let context = format!("{}-{}", way.key(), round % self.contexts);
        let (ground, exec_place) = (&self.ground, &self.exec_place);
        let whole = match way {
            Way::Bare => return bare(&mut self.bare, &self.threads.usual, text, answer).await,
            Way::BareLegacy => {
                return bare(&mut self.bare, &self.threads.legacy, text, answer).await;
            }
            Way::BareEphemeral => {
                return bare(&mut self.bare, &self.threads.ephemeral, text, answer).await;
            }
            Way::BareNew => return self.bare_new(text, answer).await,
            Way::Inbox => self.canvas.says(text, answer).await?,
            Way::Send => send(&self.canvas.daemon, &self.daemon_place, text, answer).await?,
            Way::Api => return self.http.api(text, answer).await,
            Way::A2a => return self.http.a2a(&context, text, answer).await,
            Way::A2aStream => return self.http.a2a_stream(&context, text, answer).await,
            Way::Mcp => self.mcp.task(text, answer).await?,
            Way::ExecResume => {
                let session = &self.sessions.native;
                exec::resume(&ground.codex, exec_place, session, text, answer).await?
            }
            Way::ShimResume => {
                let session = &self.sessions.shim;
                exec::resume(&ground.shim, exec_place, session, text, answer).await?
            }
            Way::ExecNew => exec::new(&ground.codex, exec_place, text, answer).await?,
        };
        Ok(Sample::whole(whole))
    }

    async fn bare_new(&mut self, text: &str, answer: &str) -> anyhow::Result<Sample> {
        let began = Instant::now();
        // The tier of tasks reads only.
        let thread = self.bare.thread(json!({"approvalPolicy": "on-request"}));
        let thread = thread.await?;
        let before = began.elapsed();
        let turn = bare(&mut self.bare, &thread, text, answer).await?;
        Ok(Sample {
            whole: before + turn.whole,
            first_token: turn.first_token.map(|first| before + first),
        })
    }

    pub(crate) async fn strike(self) -> anyhow::Result<()> {
        self.mcp.stop().await?;
        self.canvas.daemon.stop().await?;
        self.bare.stop().await
    }
}

/// What the daemon asks of a thread of its owner, so that both pay for the same.
fn terms(extra: Value) -> Value {
    let mut terms = json!({"sandbox": "workspace-write", "approvalPolicy": "on-request"});
    if let (Some(terms), Value::Object(extra)) = (terms.as_object_mut(), extra) {
        terms.extend(extra);
    }
    terms
}

async fn bare(
    server: &mut AppServer,
    thread: &str,
    text: &str,
    answer: &str,
) -> anyhow::Result<Sample> {
    let turn = server.turn(thread, text).await?;
    ensure!(
        turn.text == answer,
        "the turn said {:?}, not {answer:?}",
        turn.text
    );
    Ok(Sample {
        whole: turn.whole,
        first_token: turn.first_token,
    })
}
