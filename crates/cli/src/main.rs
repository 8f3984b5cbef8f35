//! The binary `codex-bridge`: reads the command line and hands over to the module of the command.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod audit;
mod call;
mod cli;
mod client;
mod doctor;
mod harden;
mod keeper;
mod mcp;
mod permissions;
mod policy;
mod serve;
mod service;
mod upkeep;

use anyhow::{Context, anyhow, bail};
use bridge_daemon::config::{self, Environment};
use bridge_daemon::state::StateDir;
use bridge_daemon::term;
use clap::{CommandFactory, Parser};
use cli::{ApiCommand, Cli, Command, Common, ConfigCommand, ControlCommand, DeadCommand, SendArgs};
use client::{ApiClient, SendOptions};
use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Longest text read from standard input: a message of the longest kind, with every character four bytes long.
const STDIN_MAX_BYTES: usize = 4 * bridge_core::limits::MESSAGE_MAX_CHARS;

fn main() -> ExitCode {
    let Cli { command, common } = Cli::parse();
    match command {
        Command::Keeper(args) => keeper::keep(args),
        Command::KeeperExec(args) => keeper::exec(&args),
        command => match prepare(&command) {
            Ok((runtime, environment)) => {
                let reads_stdin = matches!(command, Command::Mcp(_));
                let code = runtime.block_on(dispatch(command, common, environment));
                if reads_stdin {
                    // A read of standard input can't be called off, and nothing else is left to wait for.
                    runtime.shutdown_background();
                }
                code
            }
            Err(error) => complain(&format!("start: {error:#}")),
        },
    }
}

/// A process that runs a daemon keeps its memory and its environment to itself, from before it knows any secret.
fn prepare(command: &Command) -> anyhow::Result<(Runtime, Environment)> {
    let environment = match command {
        command if runs_daemon(command) => {
            harden::harden().context("keep this process's memory from others")?;
            Environment::read_privately()
                .context("start again without secrets in the environment")?
        }
        _ => Environment::read(),
    };
    Ok((Runtime::new()?, environment))
}

fn runs_daemon(command: &Command) -> bool {
    match command {
        #[cfg(feature = "demo")]
        Command::Demo(_) => true,
        _ => matches!(command, Command::Run(_) | Command::Mcp(_)),
    }
}

async fn dispatch(command: Command, common: Common, environment: Environment) -> ExitCode {
    let no_color = environment.no_color();
    match command {
        Command::Run(args) => serve::run(args, &common, environment).await,
        #[cfg(feature = "demo")]
        Command::Demo(args) => bridge_demo::demo::<client::DemoClient>(args, environment).await,
        #[cfg(feature = "demo")]
        Command::Drill(args) => bridge_demo::drill(args, environment).await,
        Command::Mcp(args) => mcp::run(args, common, environment).await,
        Command::Doctor(args) => doctor::run(args, &common, &environment).await,
        Command::Backup(args) => upkeep::backup(&args, &common, &environment),
        Command::Recover(args) => upkeep::recover(&args, &common, &environment),
        Command::Config(ConfigCommand::Check { json }) => config::check(
            common.config.as_deref(),
            &environment,
            common.state_dir.as_deref(),
            json,
        ),
        Command::Config(ConfigCommand::Schema) => config::print_schema(),
        Command::Audit(args) => audit::run(&args, &common, &environment),
        Command::Reload(args) => match api(&common, &environment) {
            Ok(client) => client::reload(&client, args.json).await,
            Err(error) => complain(&error.to_string()),
        },
        Command::Policy(command) => policy::run(command, &common, &environment),
        Command::Api(ApiCommand::Schema) => bridge_daemon::print_openapi(),
        Command::Api(ApiCommand::Permissions) => permissions::print(),
        Command::Service(command) => service::run(&command, &common, &environment),
        Command::Send(args) => match api(&common, &environment) {
            Ok(client) => send(&client, args, no_color).await,
            Err(error) => complain(&error.to_string()),
        },
        Command::Call(mut args) => match text_or_stdin(std::mem::take(&mut args.text)) {
            Ok(text) => call::run(args, text, no_color).await,
            Err(error) => complain(&format!("not sent: {error:#}")),
        },
        Command::Show(args) => match api(&common, &environment) {
            Ok(client) => client::show(&client, &args.id, args.json, no_color).await,
            Err(error) => complain(&error.to_string()),
        },
        Command::Why(args) => match api(&common, &environment) {
            Ok(client) => client::why(&client, &args.id, args.json, no_color).await,
            Err(error) => complain(&error.to_string()),
        },
        // It needs no daemon.
        Command::Control(ControlCommand::Completions { shell }) => completions(shell),
        Command::Control(command) => match api(&common, &environment) {
            Ok(client) => client::control(&client, command, no_color).await,
            Err(error) => complain(&error.to_string()),
        },
        Command::Interrupt(args) => match api(&common, &environment) {
            Ok(client) => {
                let wait = Duration::from_secs(args.wait);
                if client::is_task(&args.id) {
                    client::interrupt_task(&client, &args.id, wait, args.json).await
                } else {
                    client::interrupt(&client, &args.id, wait, args.json).await
                }
            }
            Err(error) => complain(&error.to_string()),
        },
        Command::Dead(command) => match api(&common, &environment) {
            Ok(client) => dead(&client, command, no_color).await,
            Err(error) => complain(&error.to_string()),
        },
        Command::Status(args) => match api(&common, &environment) {
            Ok(client) => match args.task {
                Some(task) => client::task_status(&client, &task, args.json, no_color).await,
                None => client::status(&client, args.json, no_color).await,
            },
            Err(error) => complain(&error.to_string()),
        },
        // Handled before the runtime starts.
        Command::Keeper(_) | Command::KeeperExec(_) => ExitCode::FAILURE,
    }
}

fn api(common: &Common, environment: &Environment) -> anyhow::Result<ApiClient> {
    let root = environment.state_dir(common.state_dir.as_deref())?;
    Ok(ApiClient::new(StateDir::existing(&root))?)
}

async fn dead(client: &ApiClient, command: DeadCommand, no_color: bool) -> ExitCode {
    match command {
        DeadCommand::List {
            limit,
            before,
            json,
        } => client::list_dead(client, limit, before.as_deref(), json, no_color).await,
        DeadCommand::Show(args) => client::show_dead(client, &args.id, args.json, no_color).await,
        DeadCommand::Redrive {
            ids,
            all,
            per_second,
            json,
        } => {
            let asked = client::Redriving {
                ids,
                all,
                per_second,
                json,
            };
            client::redrive(client, asked).await
        }
        DeadCommand::Drop {
            ids,
            all,
            yes,
            json,
        } => client::drop_dead(client, ids, all, yes, json).await,
    }
}

async fn send(client: &ApiClient, args: SendArgs, no_color: bool) -> ExitCode {
    let text = match text_or_stdin(args.text) {
        Ok(text) => text,
        Err(error) => return complain(&format!("not sent: {error:#}")),
    };
    let options = SendOptions {
        text,
        conversation: args.conversation,
        wait: Duration::from_secs(args.wait),
        json: args.json,
        quiet: args.quiet,
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

fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "codex-bridge", &mut script);
    match term::print(String::from_utf8_lossy(&script).trim_end()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&format!("this could not be printed: {error}")),
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

fn complain(error: &str) -> ExitCode {
    term::complain(&term::escape(error));
    ExitCode::FAILURE
}
