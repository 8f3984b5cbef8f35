//! A PostgreSQL to try something with: prints its address, and lives until its standard input ends.

use std::io::{self, Write};
use std::process::ExitCode;

use bridge_sim::postgres::Server;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start()?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", server.url_of("postgres"))?;
    out.flush()?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}
