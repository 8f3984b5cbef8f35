//! `init`: the first configuration. At a terminal it asks what a newcomer needs; with `--yes` it takes the defaults.
//!
//! Nothing is written before the last question, and a file that exists is never replaced. What the file may say is judged
//! by the loader of the configuration alone; what the machine lacks, by `doctor` at the end.

mod interview;

use self::interview::{Answers, Interview};
use crate::cli::{
    CodexBinArg, Common, DoctorArgs, InitArgs, OutputArgs, ServiceCommand, ServiceInstall,
    ServicePlace, WorkdirArg,
};
use crate::{client, doctor, service};
use anyhow::{Context, bail};
use bridge_daemon::config::{ConfigDraft, Environment, load_text, usual_file};
use std::fs::DirBuilder;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::NamedTempFile;

/// The token of a workspace, beside the configuration.
const TOKEN_FILE: &str = "molecule-token";

/// Runs the command.
pub(crate) async fn run(
    args: InitArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let file = file_to_write(common, environment)?;
    refuse_existing(&file)?;
    let draft = draft_of_flags(&args)?;
    let answers = if args.yes {
        Answers::defaults(draft)
    } else {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            bail!(
                "init asks questions at a terminal; `codex-bridge init --yes` takes the defaults"
            );
        }
        let token_file = file.with_file_name(TOKEN_FILE);
        let interview = Interview::new(draft, &file, &token_file, common, environment);
        match interview.run().await {
            Some(answers) => answers,
            None => {
                client::say("nothing was written");
                return Ok(ExitCode::from(client::EXIT_INTERRUPTED));
            }
        }
    };
    let text = answers.draft.text();
    // The configuration is refused where a workspace has no token.
    if let Some(token) = &answers.token {
        let token_file = file.with_file_name(TOKEN_FILE);
        create(&token_file, &format!("{token}\n"))?;
        client::say(&format!("wrote {}", token_file.display()));
    }
    let state_dir = common.state_dir.as_deref();
    load_text(Some(file.clone()), &text, environment, state_dir)?;
    create(&file, &text)?;
    client::say(&format!("wrote {}", file.display()));
    if answers.service
        && let Err(error) = install_service(common, environment)
    {
        client::say(&format!("no service was installed: {error:#}"));
    }
    client::say("what `codex-bridge doctor` says:");
    let checks = doctor::run(doctor_args(), common, environment);
    let code = tokio::select! {
        code = checks => code,
        _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(client::EXIT_INTERRUPTED)),
    };
    client::say(next(answers.service));
    Ok(code)
}

fn file_to_write(common: &Common, environment: &Environment) -> anyhow::Result<PathBuf> {
    let file = match &common.config {
        Some(named) => named.clone(),
        None => usual_file(environment)
            .context("there is no home directory: set HOME, or name the file with --config")?,
    };
    std::path::absolute(&file).with_context(|| format!("find {}", file.display()))
}

fn refuse_existing(file: &Path) -> anyhow::Result<()> {
    // Also a link that leads nowhere is somebody's.
    if file.symlink_metadata().is_ok() {
        bail!(
            "{} exists and stays as it is: edit it, then `codex-bridge config check`; or write another one with --config FILE",
            file.display()
        );
    }
    Ok(())
}

fn draft_of_flags(args: &InitArgs) -> anyhow::Result<ConfigDraft> {
    let mut draft = ConfigDraft::default();
    if let Some(bin) = &args.codex.codex_bin {
        draft.set("codex.bin", client::whole_path(bin)?);
    }
    if let Some(workdir) = &args.workdir.workdir {
        draft.set("tiers.owner.workdir", client::whole_path(workdir)?);
    }
    Ok(draft)
}

/// Creates a private file as a whole. One that appeared meanwhile is left alone.
fn create(file: &Path, text: &str) -> anyhow::Result<()> {
    let refused = || format!("write {}; are you allowed to?", file.display());
    let directory = file.parent().unwrap_or(Path::new("/"));
    let mut private = DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(directory).with_context(refused)?;
    let mut new = NamedTempFile::new_in(directory).with_context(refused)?;
    new.write_all(text.as_bytes()).with_context(refused)?;
    new.as_file().sync_all().with_context(refused)?;
    match new.persist_noclobber(file) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists and stays as it is", file.display())
        }
        Err(error) => Err(error.error).with_context(refused),
    }
}

fn install_service(common: &Common, environment: &Environment) -> anyhow::Result<ExitCode> {
    let install = ServiceInstall {
        place: ServicePlace {
            user: true,
            system: false,
        },
        print: false,
        force: false,
        run_as: None,
        workdir: WorkdirArg { workdir: None },
        codex_bin: None,
        handover: false,
    };
    service::run(&ServiceCommand::Install(install), common, environment)
}

fn doctor_args() -> DoctorArgs {
    DoctorArgs {
        deep: false,
        codex: CodexBinArg { codex_bin: None },
        output: OutputArgs { json: false },
    }
}

fn next(service: bool) -> &'static str {
    if service {
        "next: what doctor says, if anything; then the commands of the service above"
    } else {
        "next: what doctor says, if anything; then `codex-bridge run`, or `codex-bridge service install --user`"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn created_file_is_private_and_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new/place/codex-bridge.toml");
        create(&file, "first").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        let error = create(&file, "second").unwrap_err().to_string();
        assert!(error.contains("stays as it is"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "first");
        let left = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "no temporary file stays");
    }

    #[test]
    fn dangling_link_counts_as_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("codex-bridge.toml");
        std::os::unix::fs::symlink("/nonexistent/target", &link).unwrap();
        assert!(refuse_existing(&link).is_err());
        assert!(create(&link, "text").is_err());
    }
}
