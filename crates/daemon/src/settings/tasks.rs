//! What a task may be on this machine: where it may work, whose Codex it may have. What a task asks for
//! is typed already; nothing here reads a text as a setting.

use super::Settings;
use bridge_core::port::ThreadSpec;
use bridge_core::requester::LOCAL_OWNER;
use bridge_core::value::{
    Class, Conversation, ConversationId, Failure, ReadAccess, Sandbox, Task, TaskTerms, Tier,
};
use bridge_front::{NewTask, StartError};
use std::path::{Path, PathBuf};

fn invalid(what: impl Into<String>) -> StartError {
    StartError::Invalid(what.into())
}

impl Settings {
    /// The terms of a new task.
    pub(crate) fn terms(
        &self,
        new: &NewTask,
        conversation_id: &ConversationId,
    ) -> Result<TaskTerms, StartError> {
        let tier = self.tier(Tier::Tool);
        let sandbox = new.sandbox.unwrap_or(tier.sandbox);
        let reads = if new.by_owner {
            self.tier(Tier::Owner).reads
        } else {
            tier.reads
        };
        let exposed = sandbox.can_write() || reads == ReadAccess::Isolated;
        let cwd = match (&new.cwd, &tier.workdir) {
            (Some(cwd), _) => {
                let path = self.named_path(cwd, new.base.as_deref());
                self.directory(cwd, &path, new.by_owner, exposed)?
            }
            (None, Some(shared)) => shared.display().to_string(),
            (None, None) => match self.client_directory(new) {
                Some(directory) => directory,
                None => {
                    let own = self.start.work_root.join(conversation_id.as_str());
                    own.display().to_string()
                }
            },
        };
        Ok(TaskTerms {
            cwd,
            model: new.model.clone(),
            sandbox,
            approval_policy: new.approval_policy.unwrap_or(tier.approval_policy),
            codex_home: match &new.codex_home {
                Some(home) => Some(self.home(home)?),
                None => None,
            },
            reads,
        })
    }

    /// Where the client of a stdio server works, for the owner. Not where it holds what no task may have, whatever the
    /// sandbox: many clients start their servers in the home directory.
    fn client_directory(&self, new: &NewTask) -> Option<String> {
        let base = new.base.as_deref().filter(|_| new.by_owner)?;
        self.directory(base, Path::new(base), true, true).ok()
    }

    /// A path as a caller wrote it: `~` is the home directory, and a relative one begins where the caller works.
    fn named_path(&self, cwd: &str, base: Option<&str>) -> PathBuf {
        let below_home = cwd.strip_prefix("~/").or((cwd == "~").then_some(""));
        match (below_home, self.start.protected_paths.home(), base) {
            (Some(rest), Some(home), _) => home.join(rest),
            (_, _, Some(base)) => Path::new(base).join(cwd),
            (_, _, None) => PathBuf::from(cwd),
        }
    }

    /// The directory of a new conversation, if its first message names one; by the rules of the owner's tasks.
    pub(crate) fn conversation_directory(
        &self,
        cwd: &str,
        any: bool,
        sandbox: Option<Sandbox>,
    ) -> Result<String, StartError> {
        let tier = self.tier(Tier::Owner);
        let writes = sandbox.unwrap_or(tier.sandbox).can_write();
        self.directory(
            cwd,
            Path::new(cwd),
            any,
            writes || tier.reads == ReadAccess::Isolated,
        )
    }

    /// The directory that a caller named, by its real place.
    fn directory(
        &self,
        cwd: &str,
        path: &Path,
        any: bool,
        exposed: bool,
    ) -> Result<String, StartError> {
        if let Some(what) = self.start.protected_paths.refuse_workdir(path, exposed) {
            return Err(invalid(format!("cwd {what}")));
        }
        let real = path
            .canonicalize()
            .map_err(|error| invalid(format!("cwd names {cwd}: {error}")))?;
        let below = |root: &PathBuf| root.canonicalize().is_ok_and(|root| real.starts_with(root));
        if !any && !self.config.tasks.roots.iter().any(below) {
            return Err(StartError::Forbidden(format!(
                "cwd names {cwd}, which lies under none of the directories that the key `tasks.roots` of codex-bridge.toml lists; add it there (the owner's token may name any directory), or leave cwd out for a directory of its own"
            )));
        }
        if !any
            && exposed
            && let Some(name) = self.start.protected_paths.holder_of(&real)
        {
            return Err(StartError::Forbidden(format!(
                "cwd names {cwd}, which lies in {name}; token holders' tasks may not have that, leave cwd out for a directory of its own"
            )));
        }
        real.to_str()
            .map(ToOwned::to_owned)
            .ok_or_else(|| invalid("cwd is no UTF-8"))
    }

    /// The CODEX_HOME that a caller named, if the configuration lists it.
    fn home(&self, wanted: &str) -> Result<String, StartError> {
        match self.listed_home(wanted) {
            Some(home) => Ok(home),
            None => Err(invalid(format!(
                "codex_home {wanted} is not listed in `codex.homes` of the configuration"
            ))),
        }
    }

    /// The home that tasks begin in while the default account has no room.
    pub(crate) fn fallback_home(&self) -> Option<String> {
        self.listed_home(self.config.quota.fallback_home.as_ref()?.to_str()?)
    }

    fn listed_home(&self, wanted: &str) -> Option<String> {
        let real = Path::new(wanted).canonicalize().ok()?;
        let listed = |home: &&PathBuf| home.canonicalize().is_ok_and(|home| home == real);
        self.config.codex.homes.iter().find(listed)?;
        real.to_str().map(ToOwned::to_owned)
    }

    /// Whether this machine still has what a task was given.
    pub(crate) fn still_fits(&self, task: &Task) -> Result<(), Failure> {
        let config = |what: String| Failure::new(Class::Config, what);
        let Some(terms) = task.terms() else {
            return Ok(());
        };
        if let Some(home) = &terms.codex_home
            && self.listed_home(home).is_none()
        {
            return Err(config(format!(
                "this task's CODEX_HOME {home} is not listed in `codex.homes` any more: put it back, or stop the task"
            )));
        }
        let own = Path::new(&terms.cwd).starts_with(&self.start.work_root);
        let real = Path::new(&terms.cwd).canonicalize();
        if !own && !real.is_ok_and(|real| real == Path::new(&terms.cwd)) {
            return Err(config(format!(
                "this task's directory {} is gone or has become a link: put it back, or stop the task",
                terms.cwd
            )));
        }
        Ok(())
    }

    /// How a task's turns run: its tier's ways, changed by what it was given.
    pub(crate) fn task_spec(&self, task: &Task, conversation: &Conversation) -> ThreadSpec {
        let base = self.thread_spec(Tier::Tool, conversation);
        let Some(terms) = task.terms() else {
            return base;
        };
        ThreadSpec {
            workdir: terms.cwd.clone(),
            sandbox: terms.sandbox,
            approval_policy: terms.approval_policy,
            model: terms.model.clone().or(base.model.clone()),
            codex_home: terms.codex_home.clone(),
            reads: self.reads(terms.reads, reads_as(task)),
            ..base
        }
    }
}

/// Whose `reads_also` an isolated task has. The row knows the local owner by name; a token with `admin` has the access
/// of the owner's turns, and the list of the holders of tokens.
fn reads_as(task: &Task) -> Tier {
    if task.owner == LOCAL_OWNER {
        Tier::Owner
    } else {
        Tier::Tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ProtectedPaths};
    use crate::settings::StartSettings;
    use bridge_channel::files::{FILE_MAX_BYTES, FileStore};
    use bridge_core::port::Reads;
    use bridge_core::value::{
        ApprovalPolicy, AskedDigest, BootId, ChannelId, TaskId, TaskStart, Timestamp,
    };

    use std::sync::Arc;

    struct Machine {
        root: tempfile::TempDir,
        settings: Settings,
    }

    fn machine() -> Machine {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().canonicalize().unwrap().join(name);
        for name in ["roots/a", "roots2", "home", "other"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("other"), at("roots/out")).unwrap();
        let mut config = Config::default();
        config.tasks.roots = vec![at("roots")];
        config.codex.homes = vec![at("home")];
        let file_store = FileStore::open(root.path().join("files"), FILE_MAX_BYTES).unwrap();
        let settings = Settings::new(
            &config,
            Arc::new(StartSettings::new(BootId::new("b"), at("work"), file_store)),
        );
        Machine { root, settings }
    }

    impl Machine {
        fn at(&self, name: &str) -> String {
            let root = self.root.path().canonicalize().unwrap();
            root.join(name).display().to_string()
        }

        fn terms(&self, new: &NewTask) -> Result<TaskTerms, StartError> {
            self.settings.terms(new, &ConversationId::new("c"))
        }
    }

    fn new() -> NewTask {
        NewTask {
            prompt: "x".to_owned(),
            cwd: None,
            model: None,
            sandbox: None,
            approval_policy: None,
            codex_home: None,
            notify_target: None,
            key: None,
            starter: "ann".to_owned(),
            session: None,
            by_owner: false,
            trace: None,
            base: None,
        }
    }

    fn conversation() -> Conversation {
        Conversation {
            conversation_id: ConversationId::new("c"),
            channel: ChannelId::new(bridge_channel::task::CHANNEL),
            external_key: "codex-1".to_owned(),
            context: None,
            thread: None,
            last_turn: None,
            workdir: "/work".to_owned(),
            model: None,
            sandbox: None,
            created_at: Timestamp(0),
        }
    }

    fn task(terms: TaskTerms) -> Task {
        Task {
            task_id: TaskId::new("codex-1"),
            channel: ChannelId::new("task"),
            conversation_id: ConversationId::new("c"),
            owner: "ann".to_owned(),
            sequence: 0,
            created_at: Timestamp(0),
            start: Some(TaskStart {
                prompt_summary: "x".to_owned(),
                asked: AskedDigest::of([Some("do it")]),
                terms,
            }),
        }
    }

    #[test]
    fn token_holders_confined_to_canonical_roots() {
        let machine = machine();
        let own = machine.terms(&new()).unwrap();
        assert_eq!(own.cwd, machine.at("work/c"));
        assert_eq!(own.sandbox, Sandbox::ReadOnly);
        assert_eq!(own.approval_policy, ApprovalPolicy::OnRequest);
        for (name, allowed) in [
            ("roots/a", true),
            ("roots", true),
            ("roots2", false),
            ("roots/out", false),
            ("roots/../other", false),
        ] {
            let cwd = Some(machine.at(name));
            let mut wanted = NewTask { cwd, ..new() };
            let held = machine.terms(&wanted);
            assert_eq!(held.is_ok(), allowed, "{name}: {held:?}");
            if !allowed {
                assert!(matches!(held, Err(StartError::Forbidden(_))), "{held:?}");
            }
            wanted.by_owner = true;
            assert!(machine.terms(&wanted).is_ok(), "{name}");
        }
    }

    #[test]
    fn owner_paths_begin_where_the_client_works() {
        let mut machine = machine();
        let home = ProtectedPaths::default().with_home(machine.at("home").into());
        Arc::make_mut(&mut machine.settings.start).protected_paths = home;
        let terms = |cwd: Option<&str>, base: &str, by_owner| {
            let new = NewTask {
                cwd: cwd.map(str::to_owned),
                base: Some(machine.at(base)),
                by_owner,
                ..new()
            };
            machine.terms(&new).map(|terms| terms.cwd)
        };
        assert_eq!(terms(None, "other", true), Ok(machine.at("other")));
        assert_eq!(terms(Some("a"), "roots", true), Ok(machine.at("roots/a")));
        assert_eq!(
            terms(Some("~/.."), "roots", true),
            Ok(machine.at("").trim_end_matches('/').to_owned())
        );
        assert_eq!(terms(None, "home", true), Ok(machine.at("work/c")));
        assert_eq!(terms(None, "other", false), Ok(machine.at("work/c")));
        let held = terms(Some("."), "other", false);
        let Err(StartError::Forbidden(why)) = held else {
            panic!("{held:?}");
        };
        assert!(why.contains("`tasks.roots`"), "{why}");
    }

    #[test]
    fn f1_starter_decides_what_a_task_reads() {
        let machine = machine();
        let reads = |machine: &Machine, by_owner: bool| {
            let new = NewTask { by_owner, ..new() };
            machine.terms(&new).unwrap().reads
        };
        assert_eq!(reads(&machine, false), ReadAccess::Isolated);
        assert_eq!(reads(&machine, true), ReadAccess::Disk);
        let mut accepted = machine;
        accepted.settings.tool.reads = ReadAccess::Disk;
        accepted.settings.owner.reads = ReadAccess::Isolated;
        assert_eq!(reads(&accepted, false), ReadAccess::Disk);
        assert_eq!(reads(&accepted, true), ReadAccess::Isolated);
    }

    #[test]
    fn f1_later_configuration_widens_no_task() {
        let mut machine = machine();
        let (wanted, conversation) = (machine.terms(&new()).unwrap(), conversation());
        let mut task = task(wanted);
        machine.settings.tool.reads = ReadAccess::Disk;
        let spec = |settings: &Settings, task: &Task| settings.task_spec(task, &conversation).reads;
        let found = spec(&machine.settings, &task);
        assert!(matches!(found, Reads::Shielded { .. }), "{found:?}");
        task.start.as_mut().unwrap().terms.reads = ReadAccess::Disk;
        machine.settings.tool.reads = ReadAccess::Isolated;
        assert_eq!(spec(&machine.settings, &task), Reads::Disk);
    }

    #[test]
    fn f1_isolated_tasks_read_their_starters_paths() {
        let mut machine = machine();
        machine.settings.owner.reads = ReadAccess::Isolated;
        machine.settings.owner.reads_also = vec![machine.at("home").into()];
        machine.settings.tool.reads_also = vec![machine.at("other").into()];
        for (starter, by_owner, path) in [
            (LOCAL_OWNER, true, "home"),
            ("ann", false, "other"),
            ("admin's token", true, "other"),
        ] {
            let new = NewTask { by_owner, ..new() };
            let mut task = task(machine.terms(&new).unwrap());
            task.owner = starter.to_owned();
            let spec = machine.settings.task_spec(&task, &conversation());
            let Reads::Shielded { also, .. } = spec.reads else {
                panic!("{starter} is isolated");
            };
            assert_eq!(also, [machine.at(path)], "{starter}");
        }
    }

    #[test]
    fn f1_token_holders_work_in_no_state() {
        let mut machine = machine();
        std::fs::create_dir_all(machine.at("roots/state/files")).unwrap();
        let mut protected_paths = ProtectedPaths::default();
        protected_paths.state_dir = Some(machine.at("roots/state").into());
        Arc::make_mut(&mut machine.settings.start).protected_paths = protected_paths;
        let cwd = Some(machine.at("roots/state/files"));
        let mut wanted = NewTask { cwd, ..new() };
        let refused = machine.terms(&wanted);
        assert!(
            matches!(refused, Err(StartError::Forbidden(_))),
            "{refused:?}"
        );
        wanted.by_owner = true;
        assert!(machine.terms(&wanted).is_ok());
    }

    #[test]
    fn task_directory_must_remain_unchanged() {
        let machine = machine();
        let wanted = NewTask {
            cwd: Some(machine.at("roots/a")),
            codex_home: Some(machine.at("home")),
            ..new()
        };
        let task = task(machine.terms(&wanted).unwrap());
        assert_eq!(machine.settings.still_fits(&task), Ok(()));
        std::fs::remove_dir(machine.at("roots/a")).unwrap();
        let gone = machine.settings.still_fits(&task).unwrap_err();
        assert_eq!(gone.class, Class::Config);
        std::os::unix::fs::symlink(machine.at("other"), machine.at("roots/a")).unwrap();
        let link = machine.settings.still_fits(&task).unwrap_err();
        assert!(link.reason.contains("become a link"), "{}", link.reason);
        let unlisted = NewTask {
            codex_home: Some(machine.at("other")),
            ..new()
        };
        assert!(matches!(
            machine.terms(&unlisted),
            Err(StartError::Invalid(_))
        ));
    }
}
