//! `bridge-bench`: how fast, how small, how far, measured side by side in one run on one machine. `cargo xtask bench`
//! builds everything as it is installed and starts it.
//!
//! A part of the bench lives in a folder of its own and gives one [`section::Section`]; what a figure must hold is in
//! `bars`, how it is shown is in `report`. Nothing here is used by the daemon.

mod agreement;
mod args;
mod bars;
mod budget;
mod console;
mod cost;
mod fleet;
mod flood;
mod footprint;
mod ground;
mod latency;
mod ledger;
mod pickup;
mod plan;
mod report;
mod run;
mod section;
mod stage;
mod stats;
mod traces;

use args::{Args, Task};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = match args.task {
        Task::Run(measure) => runtime.block_on(run::run(measure)),
        Task::Ancestor(ancestor) => runtime
            .block_on(cost::ancestor::run(ancestor))
            .map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
