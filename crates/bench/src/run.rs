//! One run: the parts one after the other, the table, the page, and what must hold.

use crate::agreement::{self, Compared};
use crate::args::Measure;
use crate::ground::Ground;
use crate::plan::{Part, Plan};
use crate::section::{Ratio, Section};
use crate::{
    budget, console, cost, fleet, flood, footprint, latency, ledger, pickup, report, traces,
};
use anyhow::Context;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Fails where a bar is missed, or where the earlier run says something else.
pub(crate) async fn run(args: Measure) -> anyhow::Result<ExitCode> {
    let before = args.against.as_deref().map(read).transpose()?;
    let ground = Ground {
        plan: if args.quick {
            Plan::quick()
        } else {
            Plan::whole()
        },
        bridge: args.bridge.clone(),
        codex: args.codex.clone(),
        shim: args.shim.clone(),
        console_kit: args.console_kit.clone(),
    };
    let parts: Vec<Part> = Part::ALL
        .into_iter()
        .filter(|part| args.only.is_empty() || args.only.contains(part))
        .collect();
    let began = Instant::now();
    let sections = all(&parts, &ground).await?;
    let ratios: Vec<Ratio> = sections.iter().flat_map(|one| one.ratios.clone()).collect();
    let compared = before
        .map(|before| agreement::compare(&parts, &before, &ratios))
        .transpose()?;
    println!("{}", report::terminal(&sections, compared.as_deref()));
    if !args.quick && args.only.is_empty() {
        keep(&args.figures, &ratios)?;
        let took = began.elapsed();
        report::write(&args.docs, &ground, took, &sections, compared.as_deref())?;
    }
    if !args.only.is_empty() {
        let pictures = args.figures.with_extension("plots");
        report::draw(&pictures, &sections)?;
        eprintln!("pictures are in {}", pictures.display());
    }
    if args.quick {
        eprintln!("a quick run is too small to judge a bar by");
        return Ok(ExitCode::SUCCESS);
    }
    let missed = sections
        .iter()
        .flat_map(|one| &one.bars)
        .any(|bar| !bar.is_met());
    let differ = compared.is_some_and(|all| !all.iter().all(Compared::agrees));
    Ok(if missed || differ {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The parts one after the other. Where one fails, what was measured before it is shown all the same.
async fn all(parts: &[Part], ground: &Ground) -> anyhow::Result<Vec<Section>> {
    let mut sections = Vec::new();
    for part in parts {
        let began = Instant::now();
        eprintln!("==> {part:?}");
        match measure(*part, ground).await {
            Ok(section) => sections.push(section),
            Err(error) => {
                println!("{}", report::terminal(&sections, None));
                return Err(error.context(format!("measure {part:?}")));
            }
        }
        eprintln!("<== {part:?}: {:.0} s", began.elapsed().as_secs_f64());
    }
    Ok(sections)
}

async fn measure(part: Part, ground: &Ground) -> anyhow::Result<Section> {
    match part {
        Part::Latency => latency::measure(ground).await,
        Part::Pickup => pickup::measure(ground).await,
        Part::Traces => traces::measure(ground).await,
        Part::Ledger => ledger::measure(ground).await,
        Part::Fleet => fleet::measure(ground).await,
        Part::Flood => flood::measure(ground).await,
        Part::Footprint => footprint::measure(ground).await,
        Part::Budget => budget::measure(ground).await,
        Part::Console => console::measure(ground).await,
        Part::Cost => cost::measure(ground).await,
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<Ratio>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("understand {}", path.display()))
}

fn keep(path: &Path, ratios: &[Ratio]) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(ratios)?;
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
