//! The task that watches which Codex is wanted, changes to it, and goes back.

use super::copies::{self, Source};
use super::record::{Choice, Kept, Record, Refused, Running, Stage};
use super::{UpgradeOptions, Upgrades, databases};
use crate::app_server::homes::Homes;
use crate::app_server::{Host, wall_now};
use crate::binary::Binary;
use crate::binary::program::{Probation, Program, Standing};
use crate::binary::stamp::BinaryStamp;
use crate::process;
use bridge_core::deadline::after;
use bridge_core::port::{AgentError, Ledger};
use bridge_core::value::Class;
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the watched files are looked at while no turn begins.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The longest pause between two looks at a Codex that can't be changed to yet.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(300);
/// A Codex that ran for so long is worth a copy.
const KEEP_AFTER: Duration = Duration::from_secs(600);

/// So often a Codex may fail to start before it is refused.
const STARTS_MAX: u32 = 2;

/// Why a change was not made.
enum Obstacle {
    /// Of this Codex.
    Fault(String),
    /// It passes, or is ours.
    Passing(String),
}

/// A Codex that is to run.
struct Candidate {
    binary: Binary,
    native: Result<PathBuf, String>,
    stamp: BinaryStamp,
    digest: String,
}

pub(crate) struct Upgrader<L> {
    homes: Arc<Homes<L>>,
    options: UpgradeOptions,
    upgrades: Arc<Upgrades>,
    /// What ran before the last change.
    former: Option<Arc<Program>>,
    /// A change waits for an older process to end its turns.
    pending: bool,
    /// How long the next look at it is put off, and until when.
    pause: Duration,
    next_look: Instant,
    /// How often the process of the present candidate did not come up.
    failed_starts: u32,
    /// Since when the present Codex was not copied.
    uncopied_since: Option<Instant>,
}

impl<L: Ledger> Upgrader<L> {
    pub(crate) fn new(
        homes: Arc<Homes<L>>,
        options: UpgradeOptions,
        upgrades: Arc<Upgrades>,
    ) -> Self {
        let record = Record::read(&options.directory);
        let wanted = homes.wanted.get();
        if let Some(running) = &record.running
            && running.stage != Stage::Good
            && running.version == wanted.version
        {
            // An earlier daemon did not see the end of it.
            let (codex, version) = (wanted.codex.clone(), wanted.version.clone());
            let again = Program::new(codex, wanted.native.clone(), version, Probation::begin());
            homes.wanted.set(Arc::new(again));
        }
        Self {
            homes,
            options,
            upgrades,
            former: None,
            pending: true,
            pause: Duration::ZERO,
            next_look: Instant::now(),
            failed_starts: 0,
            uncopied_since: Some(Instant::now()),
        }
    }

    /// As long as the daemon runs.
    pub(crate) async fn run(mut self) {
        let mut last = None;
        loop {
            let program = self.homes.wanted.get();
            let undecided =
                !matches!(last.as_ref(), Some((of, Standing::Good)) if Arc::ptr_eq(of, &program));
            tokio::select! {
                standing = program.probation.decided(), if undecided => {
                    if let Standing::Failed { why } = &standing {
                        self.roll_back(&program, why).await;
                    } else {
                        self.settle(&program).await;
                    }
                    last = Some((program, Standing::Good));
                }
                () = self.upgrades.wake.notified() => self.look().await,
                () = self.homes.look_again.notified() => self.look().await,
                () = tokio::time::sleep(LOOK_EVERY) => {
                    self.upgrades.look();
                    if self.pending && self.next_look <= Instant::now() {
                        self.look().await;
                    }
                    self.keep_in_time().await;
                }
            }
        }
    }

    /// What takes turns in the usual home, or would be started there.
    fn present(&self) -> Arc<Program> {
        let session = self.homes.usual().present();
        session.map_or_else(|| self.homes.wanted.get(), |it| Arc::clone(&it.program))
    }

    /// Finds out what is to run, and changes to it where that is another Codex.
    async fn look(&mut self) {
        let pause = match self.pending {
            true => self
                .pause
                .saturating_mul(2)
                .clamp(LOOK_EVERY, LOOK_PAUSE_MAX),
            false => LOOK_EVERY,
        };
        self.pause = pause;
        self.next_look = after(Instant::now(), pause);
        self.pending = false;
        let present = self.present();
        let candidate = async {
            let (binary, stamp, choice) = self.found().await?;
            if present.is_of(&stamp) {
                return Ok(None);
            }
            let candidate = self.candidate(binary, stamp).await?;
            Ok::<_, String>(Some((candidate, choice)))
        };
        let (candidate, choice) = match candidate.await {
            Ok(Some(found)) => found,
            Ok(None) => {
                if present.probation.standing() == Standing::Good {
                    self.upgrades.say(None);
                }
                return;
            }
            Err(why) => {
                // npm may be in the middle of it.
                self.pending = true;
                return self.go_on_without(&present, &why).await;
            }
        };
        let record = Record::read(&self.options.directory);
        if let Some(refused) = record.refusal(&candidate.digest, choice.as_ref()) {
            return self.tell_refused(refused, &present);
        }
        let draining = self.homes.usual().draining();
        if draining.is_some_and(|it| !it.program.is_of(&candidate.stamp)) {
            self.pending = true;
            let version = &candidate.binary.version;
            return self.upgrades.say(Some(format!(
                "Codex {version} takes new turns when the turns of an older process have ended"
            )));
        }
        match self.change_to(&candidate, &present).await {
            Ok(()) => self.failed_starts = 0,
            Err(Obstacle::Passing(why)) => {
                tracing::warn!(why, version = %candidate.binary.version, "the change to another codex is tried again");
                self.pending = true;
            }
            Err(Obstacle::Fault(why)) => {
                self.failed_starts = 0;
                let (version, digest) = (candidate.binary.version.to_string(), candidate.digest);
                self.refuse(version, digest, &why, &present).await;
            }
        }
    }

    /// What is wanted can't be used: what runs goes on, and should it die, a copy of it.
    async fn go_on_without(&self, present: &Arc<Program>, why: &str) {
        let replaced = stamp(&present.codex).ok() != present.stamp;
        if replaced
            && Arc::ptr_eq(present, &self.homes.wanted.get())
            && let Some(kept) = self.keep(present).await
        {
            self.homes.wanted.set(kept);
        }
        tracing::debug!(why, "the codex that is wanted can't be used");
        self.upgrades.say(Some(format!(
            "the Codex that is wanted can't be used ({why}), and Codex {} goes on",
            present.version
        )));
    }

    /// The Codex that is to run, and the file that chose it. From here on its files are watched as they were found.
    async fn found(&self) -> Result<(Binary, BinaryStamp, Option<Choice>), String> {
        let asked = [
            Some(Choice::file(&self.options.directory)),
            self.options.configured.clone(),
        ];
        let asked = asked.into_iter().flatten().map(|path| {
            let stamp = BinaryStamp::of(&path).ok();
            (path, stamp)
        });
        let mut watched: Vec<_> = asked.collect();
        let options = self.options.clone();
        let found = blocking(move || {
            let choice = Choice::read(&options.directory);
            let configured = options.configured().ok();
            let binary = options.wanted(choice.as_ref());
            let binary = binary.map_err(|error| error.to_string())?;
            let stamp = stamp(&binary.path)?;
            Ok((binary, stamp, choice, configured))
        });
        let (binary, stamp, choice, configured) = found.await?;
        let shim = binary.shim.clone();
        let others = [shim, configured.map(|it| it.path)].into_iter().flatten();
        watched.extend(others.map(|path| {
            let stamp = BinaryStamp::of(&path).ok();
            (path, stamp)
        }));
        watched.push((binary.path.clone(), Some(stamp.clone())));
        self.upgrades.watch(watched);
        Ok((binary, stamp, choice))
    }

    /// All that must be known of it before it can be changed to; its digest takes a second.
    async fn candidate(&self, binary: Binary, stamp: BinaryStamp) -> Result<Candidate, String> {
        let options = self.options.clone();
        blocking(move || {
            let native = options.executable_of(&binary);
            let digest = copies::digest(native.as_ref().unwrap_or(&binary.path));
            let digest = digest.map_err(|error| error.to_string())?;
            Ok(Candidate {
                binary,
                native,
                stamp,
                digest,
            })
        })
        .await
    }

    async fn change_to(
        &mut self,
        candidate: &Candidate,
        present: &Arc<Program>,
    ) -> Result<(), Obstacle> {
        let version = candidate.binary.version.to_string();
        let path = candidate.binary.path.display();
        tracing::info!(%version, codex = %path, was = %present.version, "another codex is wanted; it is checked");
        self.upgrades.say(Some(format!(
            "Codex {version} ({path}) is checked before it takes turns"
        )));
        let kept = self.keep(present).await;
        if stamp(&present.codex).ok() != present.stamp
            && let Some(kept) = &kept
        {
            // Should the present process die now, its copy is started: what lies at its place is not checked yet.
            self.homes.wanted.set(Arc::clone(kept));
        }
        let program = Arc::new(Program::new(
            candidate.binary.path.clone(),
            candidate.native.clone(),
            version.clone(),
            Probation::begin(),
        ));
        if stamp(&candidate.binary.path).as_ref() != Ok(&candidate.stamp) {
            return Err(Obstacle::Passing("its file has changed again".to_owned()));
        }
        if version != present.version {
            self.copy_databases(&present.version).await;
        }
        let running = Running {
            version: version.clone(),
            digest: candidate.digest.clone(),
            stage: Stage::Starting,
        };
        // Before it starts: who finds its process after a crash must know that it is on probation.
        self.write(|record| record.running = Some(running.clone()))?;
        let up = self.homes.usual().next_generation(&program).await;
        up.map_err(|error| self.obstacle(&error))?;
        self.homes.wanted.set(Arc::clone(&program));
        let on_probation = Running {
            stage: Stage::OnProbation,
            ..running
        };
        self.former = Some(kept.unwrap_or_else(|| Arc::clone(present)));
        self.write(|record| record.running = Some(on_probation))?;
        self.uncopied_since = Some(Instant::now());
        self.others_follow(&program).await;
        tracing::info!(%version, codex = %path, "codex was changed");
        self.upgrades.say(Some(format!(
            "on probation for its first {} turns since Codex {}",
            crate::binary::program::FIRST_TURNS,
            present.version
        )));
        Ok(())
    }

    /// What may be the fault of a machine under load once.
    fn not_yet(&mut self, why: String) -> Obstacle {
        self.failed_starts = self.failed_starts.saturating_add(1);
        match self.failed_starts < STARTS_MAX {
            true => Obstacle::Passing(why),
            false => Obstacle::Fault(why),
        }
    }

    /// What it means that its process did not come up.
    fn obstacle(&mut self, error: &AgentError) -> Obstacle {
        let why = format!("it does not start: {error}");
        match error.failure.class {
            Class::Capacity { .. } => Obstacle::Passing(why),
            Class::Transient => self.not_yet(why),
            _ => Obstacle::Fault(why),
        }
    }

    /// The other homes. One that can't follow does at its next start.
    async fn others_follow(&self, program: &Arc<Program>) {
        for host in self.homes.all().iter().skip(1) {
            if let Err(error) = host.next_generation(program).await {
                tracing::warn!(%error, home = host.home, "another home changes its codex at its next start");
            }
        }
    }

    /// The probation ended well, or there was none.
    async fn settle(&self, program: &Arc<Program>) {
        let record = Record::read(&self.options.directory);
        let Some(running) = record
            .running
            .filter(|running| running.stage != Stage::Good)
        else {
            return;
        };
        if running.version != program.version {
            return;
        }
        let settled = self.write(|record| {
            record.running = Some(Running {
                stage: Stage::Good,
                ..running
            });
        });
        if settled.is_ok() {
            tracing::info!(version = %program.version, "codex is good: its first turns have ended well");
        }
        self.upgrades.say(None);
    }

    /// New turns go back to the Codex of before.
    async fn roll_back(&mut self, bad: &Arc<Program>, why: &str) {
        let record = Record::read(&self.options.directory);
        let running = record.running.clone();
        let digest = match running.filter(|running| running.version == bad.version) {
            Some(running) => running.digest,
            None => {
                let executable = bad.executable().to_owned();
                let digest =
                    blocking(move || copies::digest(&executable).map_err(|it| it.to_string()));
                digest.await.unwrap_or_default()
            }
        };
        let back = match self.former.take() {
            Some(former) => Some(former),
            // Its digest takes a second.
            None => {
                let kept = record.last_good(Some(&digest)).cloned();
                let whole = blocking(move || Ok(kept.filter(copies::is_whole)));
                whole.await.ok().flatten().as_ref().map(of_copy)
            }
        };
        let Some(back) = back else {
            tracing::error!(why, version = %bad.version, "codex failed in its first turns, and there is no copy of an earlier one to go back to");
            return self.upgrades.say(Some(format!(
                "Codex {} failed in its first turns ({why}), and no earlier one is kept: run `codex-bridge upgrade-codex VERSION`",
                bad.version
            )));
        };
        tracing::error!(why, version = %bad.version, back = %back.version, "codex failed in its first turns: new turns go back to the one of before");
        self.homes.wanted.set(Arc::clone(&back));
        self.refuse(bad.version.clone(), digest, why, &back).await;
        for host in self.homes.all() {
            let went_back = match host.go_back(bad).await {
                true => Ok(()),
                false => host.next_generation(&back).await,
            };
            if let Err(error) = went_back {
                tracing::error!(%error, "the codex of before does not start yet");
                host.end_current("it failed in its first turns").await;
            }
        }
    }

    /// Writes down that a Codex is not used, and says so.
    async fn refuse(&self, version: String, digest: String, why: &str, present: &Arc<Program>) {
        let refused = Refused {
            version,
            digest,
            why: why.to_owned(),
            at: wall_now().0,
        };
        tracing::error!(version = %refused.version, why, stays = %present.version, "a codex is refused");
        self.tell_refused(&refused, present);
        let written = self.write(|record| {
            record.refuse(refused);
            record.running = None;
        });
        if let Err(Obstacle::Fault(error) | Obstacle::Passing(error)) = written {
            tracing::error!(error, "that a codex is refused could not be written down");
        }
    }

    fn tell_refused(&self, refused: &Refused, present: &Arc<Program>) {
        self.upgrades.say(Some(format!(
            "Codex {} is refused ({}), and Codex {} goes on: install another, or run `codex-bridge upgrade-codex {}` to try it again",
            refused.version, refused.why, present.version, refused.version
        )));
    }

    /// Changes what is remembered.
    fn write(&self, change: impl FnOnce(&mut Record)) -> Result<(), Obstacle> {
        let mut record = Record::read(&self.options.directory);
        change(&mut record);
        let written = record.write(&self.options.directory);
        written.map_err(|error| Obstacle::Passing(format!("write what is remembered: {error}")))
    }

    /// A Codex that has worked for a while is copied, before anybody replaces it.
    async fn keep_in_time(&mut self) {
        let due = self
            .uncopied_since
            .is_some_and(|since| since.elapsed() >= KEEP_AFTER);
        let present = self.present();
        if due && !matches!(present.probation.standing(), Standing::OnProbation { .. }) {
            self.uncopied_since = None;
            self.keep(&present).await;
        }
    }

    /// Makes our own copy of a Codex; `None` where that fails.
    async fn keep(&self, program: &Arc<Program>) -> Option<Arc<Program>> {
        let source = self.source_of(program)?;
        let directory = self.options.directory.clone();
        let kept = blocking(move || {
            let kept = copies::keep(&directory, &source);
            kept.map_err(|error| error.to_string())
        });
        match kept.await {
            Ok(kept) => {
                let mut old = Vec::new();
                let copy = of_copy(&kept);
                let written = self.write(|record| old = record.keep(kept));
                if written.is_ok() {
                    for kept in old {
                        copies::remove(&self.options.directory, &kept);
                    }
                }
                Some(copy)
            }
            Err(error) => {
                tracing::warn!(error, version = %program.version, "no copy of this codex could be made, so there may be none to go back to");
                None
            }
        }
    }

    /// Where a program can be copied from: its file, or the process that runs it where another file took its place.
    fn source_of(&self, program: &Arc<Program>) -> Option<Source> {
        let codex = program.executable().to_owned();
        let session = self.homes.usual().present();
        let session = session.filter(|session| Arc::ptr_eq(&session.program, program));
        let exe = session.and_then(|session| running_executable(session.incarnation.keeper.pid));
        let inode = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
        let executable = match exe {
            Some(exe) if inode(&exe) == inode(&codex) => None,
            Some(exe) => Some(exe),
            None if stamp(&program.codex).ok() == program.stamp => None,
            None => return None,
        };
        Some(Source {
            version: program.version.clone(),
            codex,
            executable,
        })
    }

    async fn copy_databases(&self, version: &str) {
        for host in self.homes.all() {
            let Some(home) = host.codex_home() else {
                continue;
            };
            let name = format!("before-{}-{}", wall_now().0, version);
            let directory = self
                .options
                .directory
                .join("databases")
                .join(name_of(&home));
            let snapshot = self.options.snapshot;
            let copied = blocking(move || {
                let copied = databases::copy(&home, &directory, &name, snapshot);
                copied.map_err(|error| error.to_string())
            });
            match copied.await {
                Ok(place) => {
                    tracing::info!(place = %place.display(), "codex's databases were copied before another version opens them");
                }
                Err(error) => tracing::warn!(error, "codex's databases could not be copied"),
            }
        }
    }
}

impl<L: Ledger> Host<L> {
    fn codex_home(&self) -> Option<PathBuf> {
        let named = self.home.as_ref().map(PathBuf::from);
        named.or_else(|| self.options.launch.usual_home())
    }
}

/// The program that the child of a keeper runs, also where its file was replaced or removed.
fn running_executable(keeper: i32) -> Option<PathBuf> {
    let codex = process::children(keeper).into_iter().next()?;
    let exe = PathBuf::from(format!("/proc/{codex}/exe"));
    exe.metadata().is_ok().then_some(exe)
}

fn of_copy(kept: &Kept) -> Arc<Program> {
    Arc::new(Program::new(
        kept.codex.clone(),
        Ok(kept.codex.clone()),
        kept.version.clone(),
        Probation::none(),
    ))
}

fn stamp(path: &Path) -> Result<BinaryStamp, String> {
    BinaryStamp::of(path).map_err(|error| error.to_string())
}

/// A directory's name for a home.
fn name_of(home: &Path) -> String {
    let digest = Sha256::digest(home.as_os_str().as_encoded_bytes());
    digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error: tokio::task::JoinError| Err(io::Error::other(error).to_string()))
}
