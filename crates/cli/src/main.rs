//! The binary `codex-bridge`: reads the command line and calls the command's module.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod audit;
mod backup;
mod call;
mod cli;
mod client;
mod completion;
mod doctor;
mod help;
mod init;
mod ledger;
mod legacy;
mod mcp;
mod permissions;
mod policy;
mod schemas;
mod serve;
mod service;
mod upgrade_codex;

use anyhow::{Context, anyhow, bail};
use bridge_core::value::Transport;
use bridge_daemon::config::{self, Environment};
use bridge_daemon::state::{StateDir, StateError};
use bridge_host::keeper::{BootInstant, KeeperOptions, exec_codex};
use clap::{ArgMatches, FromArgMatches};
use cli::{
    ApiCommand, Cli, CliCommand, Common, ConfigCommand, ControlCommand, DeadCommand, KeeperArgs,
    KeeperExecArgs, SendArgs,
};
use client::{ApiClient, ClientError, ErrorReport, SendOptions};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Longest text read from standard input: a message of the longest kind, with every character four bytes long.
const STDIN_MAX_BYTES: usize = 4 * bridge_core::limits::MESSAGE_MAX_CHARS;

fn main() -> ExitCode {
    let arguments = legacy::arguments(std::env::args_os());
    let parsed = help::command().try_get_matches_from(&arguments);
    let parsed = parsed.and_then(|found| Ok((Cli::from_arg_matches(&found)?, found)));
    let (Cli { command, common }, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() && asks_json(&arguments) => return misused(&error),
        Err(error) => error.exit(),
    };
    match command {
        CliCommand::Keeper(args) => keep(args),
        CliCommand::KeeperExec(args) => keeper_exec(&args),
        command => run(command, common).unwrap_or_else(|error| fail(&error, wants_json(&matches))),
    }
}

/// Whether `--json` is among words that can't be understood.
fn asks_json(words: &[OsString]) -> bool {
    let mut words = words.iter().take_while(|word| *word != "--");
    words.any(|word| word == "--json")
}

/// Whether the command was given `--json`.
fn wants_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten();
    let below = matches.subcommand().map(|(_, below)| wants_json(below));
    here.copied().unwrap_or(false) || below.unwrap_or(false)
}

/// A failure: for programs in one form on stdout, for people as a sentence.
fn fail(error: &anyhow::Error, json: bool) -> ExitCode {
    let code = client::failure_code(error);
    if !json {
        complain(&client::failure_words(error));
        return code;
    }
    tell(&ErrorReport::of(error), code)
}

/// A command line that can't be understood, for programs: what is wrong, without the usage.
fn misused(error: &clap::Error) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(1);
    let said = error.render().to_string();
    let said = said.trim().trim_start_matches("error: ");
    let said = said.split("\n\n").next().unwrap_or(said);
    tell(&ErrorReport::new("usage", said), ExitCode::from(code))
}

fn tell(report: &ErrorReport, code: ExitCode) -> ExitCode {
    client::print_error(report, code).unwrap_or_else(|error| {
        complain(&client::failure_words(&error));
        ExitCode::FAILURE
    })
}

fn run(command: CliCommand, common: Common) -> anyhow::Result<ExitCode> {
    let (runtime, environment) = prepare(&command).context("start")?;
    let state_dir = environment.state_dir(common.state_dir.as_deref());
    let reads_stdin = matches!(command, CliCommand::Mcp(_) | CliCommand::Init(_));
    let done = runtime.block_on(dispatch(command, common, environment));
    if reads_stdin {
        // A read of standard input can't be called off, and nothing else is left to wait for.
        runtime.shutdown_background();
    }
    done.map_err(|error| match error.downcast::<ClientError>() {
        Ok(error) => explain(error, state_dir.ok()).into(),
        Err(error) => error,
    })
}

/// That no daemon runs, or that this user may not ask it, says more than that its socket is silent. A call that may have
/// been obeyed stays one.
fn explain(error: ClientError, state_dir: Option<PathBuf>) -> ClientError {
    if error.may_have_arrived() {
        return error;
    }
    let state = state_dir.map(|path| StateDir::existing(&path));
    match state {
        Some(state) if error.is_silence_of(&state) && state.holder().is_none() => {
            match (state.absence(), error) {
                // The directory is open to us and the socket is not.
                (StateError::NoDaemon { .. }, error @ ClientError::NotPermitted { .. }) => error,
                (absence, _) => absence.into(),
            }
        }
        Some(_) | None => error,
    }
}

/// A process that runs a daemon, or is given the address of a database, keeps its memory and its environment to itself, from before it knows any secret.
fn prepare(command: &CliCommand) -> anyhow::Result<(Runtime, Environment)> {
    let environment = match command {
        command if holds_secrets(command) => {
            serve::harden().context("keep this process's memory from others")?;
            Environment::read_privately()
                .context("start again without secrets in the environment")?
        }
        _ => Environment::read(),
    };
    #[cfg(debug_assertions)]
    if let Some(path) = environment.next_schema() {
        let sql = std::fs::read_to_string(path).context("read the migration of a later build")?;
        bridge_store::add_migration(sql);
    }
    Ok((Runtime::new()?, environment))
}

fn holds_secrets(command: &CliCommand) -> bool {
    match command {
        #[cfg(feature = "demo")]
        CliCommand::Demo(_) => true,
        _ => matches!(
            command,
            CliCommand::Run(_)
                | CliCommand::Mcp(_)
                | CliCommand::Ledger(_)
                | CliCommand::Audit(_)
                | CliCommand::Doctor(_)
                | CliCommand::Rehearse(_)
                | CliCommand::Init(_)
        ),
    }
}

async fn dispatch(
    command: CliCommand,
    common: Common,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let no_color = environment.no_color();
    let api = || connect(&common, &environment);
    let dead = async |api: &ApiClient, command| client::dead(api, command, no_color).await;
    match command {
        CliCommand::Run(args) => serve::run(args, &common, environment).await,
        #[cfg(feature = "demo")]
        CliCommand::Demo(args) => {
            Ok(bridge_demo::demo::<client::ApiDemoClient>(args, environment).await)
        }
        #[cfg(feature = "demo")]
        CliCommand::Drill(args) => bridge_demo::drill(args, environment).await,
        CliCommand::Mcp(args) => mcp::run(args, common, environment).await,
        CliCommand::Init(args) => init::run(args, &common, &environment).await,
        CliCommand::Doctor(args) => Ok(doctor::run(args, &common, &environment).await),
        CliCommand::UpgradeCodex(args) => upgrade_codex::run(args, &common, &environment).await,
        CliCommand::Rehearse(args) => client::rehearse(&api()?, &args, &common, &environment).await,
        CliCommand::Backup(args) => backup::backup(&args, &common, &environment),
        CliCommand::Recover(args) => backup::recover(&args, &common, &environment),
        CliCommand::Ledger(command) => ledger::run(&command, &common, &environment),
        CliCommand::Config(ConfigCommand::Check(output)) => {
            let (file, state_dir) = (common.config.as_deref(), common.state_dir.as_deref());
            let loaded = config::load(file, &environment, state_dir)?;
            output.show(&config::report(&loaded), ExitCode::SUCCESS, |_| {
                config::in_force(&loaded, &environment)
            })
        }
        CliCommand::Config(ConfigCommand::Schema) => Ok(config::print_schema()),
        CliCommand::Audit(args) => audit::run(&args, &common, &environment),
        CliCommand::Reload(output) => client::reload(&api()?, output).await,
        CliCommand::Policy(command) => policy::run(command, &common, &environment),
        CliCommand::Api(ApiCommand::Schema) => Ok(bridge_daemon::print_openapi()),
        CliCommand::Api(ApiCommand::Json) => schemas::print(),
        CliCommand::Api(ApiCommand::Permissions) => permissions::print(),
        CliCommand::Service(command) => service::run(&command, &common, &environment),
        CliCommand::Send(args) => {
            let api = api()?;
            client::offer_daemon(&api, &common, args.json).await?;
            send(&api, args, no_color).await
        }
        CliCommand::Call(mut args) => {
            let text = text_or_stdin(std::mem::take(&mut args.text)).context("not sent")?;
            call::run(args, text, no_color).await
        }
        CliCommand::Show(args) => client::show(&api()?, &args, no_color).await,
        CliCommand::Why(args) => client::why(&api()?, &args, no_color).await,
        // It needs no daemon.
        CliCommand::Control(ControlCommand::Completions { shell }) => completion::script(shell),
        CliCommand::Help(args) => help::help(&args),
        CliCommand::Man { directory } => completion::manual(&directory),
        CliCommand::Complete { kind } => match api() {
            Ok(api) => completion::names(&api, kind).await,
            Err(_) => Ok(ExitCode::SUCCESS),
        },
        CliCommand::Control(command) => {
            let api = api()?;
            if let ControlCommand::Start(args) = &command {
                client::offer_daemon(&api, &common, args.output.json).await?;
            }
            client::control(&api, command, no_color).await
        }
        CliCommand::Console(args) => {
            let api = api()?;
            client::offer_daemon(&api, &common, args.output.json).await?;
            let state_dir = environment.state_dir(common.state_dir.as_deref())?;
            client::console(&api, args, &environment, &state_dir).await
        }
        CliCommand::Node(command) => client::node(&api()?, command, no_color).await,
        CliCommand::Move(args) => client::move_conversation(&api()?, &args).await,
        CliCommand::Lend(args) => client::lend(&api()?, &args, &environment).await,
        CliCommand::Return(args) => client::give_back(&api()?, &args).await,
        CliCommand::Ls(args) => client::ls(&api()?, &args, no_color).await,
        CliCommand::Log(args) => client::log(&api()?, &args, no_color).await,
        CliCommand::Stop(args) => client::stop(&api()?, args).await,
        CliCommand::Failed(args) => dead(&api()?, DeadCommand::List(args)).await,
        CliCommand::Retry(args) => dead(&api()?, DeadCommand::Redrive(args)).await,
        CliCommand::Discard(args) => dead(&api()?, DeadCommand::Drop(args)).await,
        CliCommand::Dead(command) => dead(&api()?, command).await,
        CliCommand::Status(args) => client::status(&api()?, args, no_color).await,
        // Handled before the runtime starts.
        CliCommand::Keeper(_) | CliCommand::KeeperExec(_) => Ok(ExitCode::FAILURE),
    }
}

fn connect(common: &Common, environment: &Environment) -> anyhow::Result<ApiClient> {
    let root = environment.state_dir(common.state_dir.as_deref())?;
    let state = StateDir::existing(&root);
    Ok(match group_socket(&state, environment) {
        Some(socket) => ApiClient::of_group(state, socket)?,
        None => ApiClient::new(state)?,
    })
}

/// The socket of a group: the one that was named, else that of the machine's service for whoever has no daemon of their
/// own and may open it.
fn group_socket(state: &StateDir, environment: &Environment) -> Option<PathBuf> {
    if let Some(named) = environment.group_socket() {
        return Some(named);
    }
    let usual = bridge_daemon::usual_group_socket();
    let opens = |path: &PathBuf| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    let has_own = || nix::unistd::geteuid().is_root() || state.holder().is_some();
    Some(usual).filter(opens).filter(|_| !has_own())
}

async fn send(client: &ApiClient, args: SendArgs, no_color: bool) -> anyhow::Result<ExitCode> {
    let files = client::uploads(&args.work.file).context("not sent")?;
    let cwd = args.work.cwd.as_deref().map(client::whole_path).transpose();
    let options = SendOptions {
        text: text_or_stdin(args.text).context("not sent")?,
        conversation: args.conversation,
        cwd: cwd.context("not sent")?,
        model: args.work.model,
        sandbox: args.work.sandbox,
        files,
        wait: (!args.no_wait).then(|| Duration::from_secs(args.wait)),
        json: args.json,
        quiet: args.quiet,
        raw: args.work.raw,
        no_color,
    };
    client::send(client, options).await
}

/// A text of the command line; `-` stands for standard input.
fn text_or_stdin(text: String) -> anyhow::Result<String> {
    match text.as_str() {
        "-" => read_stdin(),
        _ => Ok(text),
    }
}

fn read_stdin() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(STDIN_MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .context("read the message from standard input")?;
    if bytes.len() > STDIN_MAX_BYTES {
        bail!(
            "standard input holds more than {STDIN_MAX_BYTES} bytes and Codex takes at most {} characters: put the rest in a file in the working directory and name it in the text",
            bridge_core::limits::MESSAGE_MAX_CHARS
        );
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow!("standard input is not UTF-8 text (byte {at}): convert it first, with `iconv` for example")
    })
}

fn complain(error: &str) {
    client::say(error);
}

/// The hidden command `keeper`; the work is in `bridge_host`.
fn keep(args: KeeperArgs) -> ExitCode {
    let mut codex = args.codex.into_iter();
    let (Ok(transport), Some(binary)) = (args.transport.parse::<Transport>(), codex.next()) else {
        eprintln!("keeper: unknown transport {}", args.transport);
        return ExitCode::FAILURE;
    };
    let options = KeeperOptions {
        directory: args.directory,
        transport,
        linger: Duration::from_millis(args.linger_ms),
        lease: args.lease_until_ms.map(BootInstant::from_millis),
        prompt_bytes: args.prompt_bytes,
        codex: PathBuf::from(binary),
        args: codex.collect(),
    };
    match bridge_host::keeper::keep(&options) {
        Ok(code) => ExitCode::from(u8::try_from(code.clamp(0, 255)).unwrap_or(1)),
        Err(error) => {
            eprintln!("keeper: {error}");
            ExitCode::FAILURE
        }
    }
}

fn keeper_exec(args: &KeeperExecArgs) -> ExitCode {
    if let Some((binary, rest)) = args.codex.split_first() {
        let error = exec_codex(Path::new(binary), rest);
        eprintln!("start {binary}: {error}");
    }
    ExitCode::from(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_with_the_databases_address_hide_it() {
        for words in [
            &["run"][..],
            &["audit", "--verify"],
            &["doctor"],
            &["init"],
            &["ledger", "copy", "--to", "postgres"],
        ] {
            let words = ["codex-bridge"].iter().chain(words);
            let found = help::command().try_get_matches_from(words).unwrap();
            let cli = Cli::from_arg_matches(&found).unwrap();
            assert!(holds_secrets(&cli.command), "{cli:?}");
        }
    }
}
