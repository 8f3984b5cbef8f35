//! One run: the parts one after the other, the table, the page, and what must hold.

use crate::agreement::{self, Compared};
use crate::args::Measure;
use crate::ground::Ground;
use crate::plan::{Part, Plan};
use crate::section::{Ratio, Section};
use crate::{cost, flood, footprint, latency, ledger, report, traces};
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
    };
    let parts: Vec<Part> = Part::ALL
        .into_iter()
        .filter(|part| args.only.is_empty() || args.only.contains(part))
        .collect();
    let mut sections = Vec::new();
    for part in parts {
        let began = Instant::now();
        eprintln!("==> {part:?}");
        let section = measure(part, &ground).await;
        let section = section.with_context(|| format!("measure {part:?}"))?;
        eprintln!("<== {part:?}: {:.0} s", began.elapsed().as_secs_f64());
        sections.push(section);
    }
    let ratios: Vec<Ratio> = sections.iter().flat_map(|one| one.ratios.clone()).collect();
    let compared = before.map(|before| agreement::compare(&before, &ratios));
    println!("{}", report::terminal(&sections, compared.as_deref()));
    keep(&args.figures, &ratios)?;
    if !args.quick && args.only.is_empty() {
        report::write(&args.docs, &ground, &sections, compared.as_deref())?;
    }
    let missed = sections
        .iter()
        .flat_map(|one| &one.bars)
        .any(|bar| !bar.is_met());
    let differ = compared.is_some_and(|all| !all.iter().all(Compared::agrees));
    Ok(match missed || differ {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

async fn measure(part: Part, ground: &Ground) -> anyhow::Result<Section> {
    match part {
        Part::Latency => latency::measure(ground).await,
        Part::Traces => traces::measure(ground).await,
        Part::Ledger => ledger::measure(ground).await,
        Part::Flood => flood::measure(ground).await,
        Part::Footprint => footprint::measure(ground).await,
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
