//! A stand-in for the Codex binary, for what the real one can't be made to do: fall silent at one method, write
//! garbage, answer with a foreign id, end in mid-turn. It speaks the app-server protocol as the host uses it, keeps
//! its threads in CODEX_HOME, and misbehaves as `fake.jsonl` there says (see `script`).
//!
//! Only for that: a test that the real Codex can serve uses the real Codex. That both say the same when nothing
//! is wrong is a test of its own (`tests/fake_codex`).

mod peers;
mod protocol;
mod script;
mod server;
mod shape;
mod threads;

use std::path::PathBuf;
use std::process::ExitCode;

/// The version it claims: the one whose messages it copies.
const VERSION: &str = "0.166.0";

/// What one start is asked for.
enum Ask {
    Version,
    Serve { socket: Option<PathBuf> },
}

fn ask(args: &[String]) -> Option<Ask> {
    match args.first().map(String::as_str) {
        Some("--version") => Some(Ask::Version),
        Some("app-server") => {
            let listen = args.iter().skip_while(|arg| *arg != "--listen").nth(1);
            let socket = listen.and_then(|at| at.strip_prefix("unix://"));
            Some(Ask::Serve {
                socket: socket.map(PathBuf::from),
            })
        }
        Some(_) | None => None,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let served = match ask(&args) {
        Some(Ask::Version) => {
            println!("codex-cli {VERSION}");
            return ExitCode::SUCCESS;
        }
        Some(Ask::Serve { socket }) => serve(socket).await,
        None => Err(format!("fake-codex can't do {args:?}")),
    };
    match served {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

async fn serve(socket: Option<PathBuf>) -> Result<u8, String> {
    let home = std::env::var_os("CODEX_HOME").ok_or("fake-codex needs CODEX_HOME")?;
    let home = PathBuf::from(home);
    let script = script::Script::read(&home)?;
    server::Server::new(home, script).run(socket).await
}
