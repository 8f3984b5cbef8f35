//! The scripted model as a program, for tools that are not written in Rust: it writes the configuration that points
//! Codex at it into `--home DIR`, says where it listens, and serves until its standard input is closed.
//!
//! `--kit` makes it obey the message ids of the official A2A kits. What it can be told to say is in the library.

use bridge_sim::{Options, ScriptedModel};
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs, io};

const USAGE: &str = "usage: scripted-model --home DIR [--kit]";

fn main() -> ExitCode {
    match arguments().and_then(|(home, kit)| serve(home, kit).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<(PathBuf, bool), String> {
    let (mut home, mut kit) = (None, false);
    let mut args = env::args_os().skip(1);
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--home") => home = args.next().map(PathBuf::from),
            Some("--kit") => kit = true,
            Some(_) | None => return Err(USAGE.to_owned()),
        }
    }
    home.map(|home| (home, kit)).ok_or_else(|| USAGE.to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn serve(home: PathBuf, kit: bool) -> io::Result<()> {
    let model = ScriptedModel::start(Options {
        kit,
        ..Options::default()
    })
    .await?;
    fs::create_dir_all(&home)?;
    fs::write(home.join("config.toml"), model.codex_config())?;
    println!("{}", model.base_url());
    let closed = || io::copy(&mut io::stdin().lock(), &mut io::sink());
    tokio::task::spawn_blocking(closed).await??;
    model.stop().await;
    Ok(())
}
