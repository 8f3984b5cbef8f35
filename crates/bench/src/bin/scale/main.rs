//! How far one PostgreSQL carries a fleet, simulated with measured costs: `cargo run --release -p bridge-bench --bin scale`
//! prints the table of docs/scale.md.

mod costs;
mod fleet;

use costs::{COSTS, Costs};
use fleet::{Outcome, Simulation};

/// Nodes of the rows.
const NODES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Round trips between node and server of the columns, in microseconds: one machine, one rack, one region.
const TRIPS_US: [u64; 4] = [0, 100, 300, 1_000];

fn main() {
    print!("{}", table());
}

/// The table, in Markdown.
fn table() -> String {
    let mut lines = vec![
        "| nodes | turns/s | same machine | 0.1 ms away | 0.3 ms away | 1 ms away |".to_owned(),
        "| --: | --: | --: | --: | --: | --: |".to_owned(),
    ];
    for nodes in NODES {
        let cells = TRIPS_US.map(|round_trip_us| {
            let costs = Costs {
                round_trip_us,
                ..COSTS
            };
            cell(&Simulation::new(&costs, nodes).run())
        });
        let rate = costs::turns_per_second(nodes);
        lines.push(format!("| {nodes} | {rate:.0} | {} |", cells.join(" | ")));
    }
    lines.join("\n") + "\n"
}

fn cell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Kept {
            busy_percent,
            waited_p99_us,
        } => format!(
            "{busy_percent} % busy, {:.0} ms",
            *waited_p99_us as f64 / 1000.0
        ),
        Outcome::Behind => "too much".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_has_the_simulated_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md");
        let paper = std::fs::read_to_string(path).unwrap();
        assert!(paper.contains(&table()), "put this there:\n{}", table());
    }

    #[test]
    fn slower_networks_carry_fewer_nodes() {
        let outcome = |round_trip_us, nodes| {
            let costs = Costs {
                round_trip_us,
                ..COSTS
            };
            Simulation::new(&costs, nodes).run()
        };
        assert!(matches!(outcome(0, 1), Outcome::Kept { .. }));
        assert!(matches!(outcome(10_000, 64), Outcome::Behind));
    }
}
