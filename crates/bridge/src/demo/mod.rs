//! `demo`: the main job on this machine alone. A scripted model, a private CODEX_HOME and a daemon are started, a
//! few messages of two conversations go through the real Codex, Codex is killed once, and nothing is left behind.

mod codex;
mod stage;
mod story;

use crate::cli::DemoArgs;
use crate::config::Environment;
use crate::term::{Paint, escape};
use std::process::ExitCode;

pub(crate) async fn run(args: DemoArgs, environment: Environment) -> ExitCode {
    let paint = Paint::stdout(environment.no_color());
    match play(args, environment, paint).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "{} {}",
                paint.red("the demo stopped:"),
                escape(&format!("{error:#}"))
            );
            ExitCode::FAILURE
        }
    }
}

async fn play(args: DemoArgs, environment: Environment, paint: Paint) -> anyhow::Result<()> {
    println!(
        "{}",
        paint.bold("codex-bridge demo: no account, no network, nothing kept")
    );
    println!();
    let codex = codex::find_or_install(args.codex_bin.as_deref(), &environment, paint).await?;
    let stage = stage::Stage::set(codex, &environment, paint).await?;
    let told = story::tell(&stage, paint).await;
    let struck = stage.strike().await;
    told?;
    struck?;
    println!(
        "{}",
        paint.green("Everything is stopped and removed again.")
    );
    println!();
    where_next(paint);
    Ok(())
}

fn where_next(paint: Paint) {
    println!("{}", paint.bold("Where to go next"));
    println!("  codex login                     log Codex in, once");
    println!("  codex-bridge doctor             check Codex, its sandbox and this machine");
    println!("  codex-bridge run                start the daemon");
    println!("  codex-bridge send \"Hello\"       talk to it from another terminal");
}
