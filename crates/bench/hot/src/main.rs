//! `bridge-hot`: runs one hot path so and so often, and counts instructions by running itself under callgrind.
//!
//! A time would flicker on a shared machine; a number of instructions does not. What may be used is in
//! `budgets.json`.

mod count;

use bridge_hot::fill::fill;
use bridge_hot::fold::fold;
use bridge_hot::life::Lives;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "bridge-hot", about)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Count the instructions of every hot path and hold them against their budgets
    Count {
        /// Write what is counted down as the new budgets
        #[arg(long)]
        renew: bool,
    },
    /// Make a ledger with finished messages behind it
    Fill {
        path: PathBuf,
        #[arg(long)]
        behind: u64,
    },
    /// Let messages live through a ledger
    Live {
        path: PathBuf,
        /// Finished messages behind it
        #[arg(long)]
        behind: u64,
        /// Conversations side by side
        #[arg(long)]
        width: u64,
        /// Messages of each
        #[arg(long)]
        each: u64,
    },
    /// Fold so many turns with so many deltas each
    Fold {
        #[arg(long)]
        turns: u64,
        #[arg(long)]
        deltas: u64,
    },
}

fn main() -> ExitCode {
    let done = run(Args::parse());
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    // One thread beside the ledger's own: what runs when must not change the count.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    match args.task {
        Task::Count { renew } => return count::run(renew),
        Task::Fill { path, behind } => runtime.block_on(fill(&path, behind))?,
        Task::Live {
            path,
            behind,
            width,
            each,
        } => {
            let taken = runtime.block_on(async {
                let lives = Lives::open(&path, behind)?;
                let taken = lives.side_by_side(width, each).await?;
                lives.close(&path).await?;
                anyhow::Ok(taken)
            })?;
            anyhow::ensure!(
                taken == width * each,
                "{taken} messages were answered, not {}",
                width * each
            );
        }
        Task::Fold { turns, deltas } => {
            for _ in 0..turns {
                fold(deltas)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
