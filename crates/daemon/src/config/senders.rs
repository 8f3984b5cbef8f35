//! Tiers of senders by name, and what their turns run under: for explanations of the rules, here and on the command line.

use super::Config;
use super::tiers::TierConfig;
use bridge_channel::{a2a, local, task};
use bridge_core::value::Tier;
use bridge_front::{PolicyInForce, TierTerms};

/// The name for people at the canvas of a Molecule workspace.
const CANVAS: &str = "canvas";

impl Config {
    /// The rules, and the terms that questions come up under.
    pub fn policy_in_force(&self) -> PolicyInForce {
        PolicyInForce {
            policy: self.policy(),
            owner: terms(&self.tiers.owner),
            peer: terms(&self.tiers.peer),
            tool: terms(&self.tiers.tool),
            deadline_secs: self.approvals.deadline_secs,
        }
    }

    /// The tier of a sender, as the channel derives it. `of_workspace` knows the senders of the workspaces whose ids begin
    /// so.
    pub fn tier_of(
        &self,
        channel: &str,
        sender: Option<&str>,
        of_workspace: impl Fn(&str, &str) -> Option<Tier>,
    ) -> Result<Tier, String> {
        if sender.is_some() && channel == task::CHANNEL {
            return Err(format!(
                "on the channel {channel} it does not matter who sends; leave the sender out"
            ));
        }
        match channel.split_once(':') {
            // A name is a token's; the socket's user has none.
            None if channel == local::CHANNEL => Ok(match sender {
                None => Tier::Owner,
                Some(_) => Tier::Tool,
            }),
            None if channel == task::CHANNEL => Ok(Tier::Tool),
            None if channel == a2a::CHANNEL => {
                let named = sender.and_then(|name| self.a2a.peer_config(name));
                Ok(named.map_or(Tier::Peer, |peer| peer.tier))
            }
            Some(("molecule", id)) if !id.is_empty() => of_workspace(id, sender.unwrap_or(CANVAS))
                .ok_or_else(|| format!("no Molecule workspace `{id}` is configured")),
            None | Some(_) => Err(format!(
                "there is no channel `{channel}`; channels are local, task, a2a and molecule:ID"
            )),
        }
    }
}

fn terms<T>(tier: &TierConfig<T>) -> TierTerms {
    TierTerms {
        sandbox: tier.sandbox(),
        approval_policy: tier.approval_policy(),
    }
}
