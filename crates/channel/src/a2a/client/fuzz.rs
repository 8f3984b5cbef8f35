//! Entry points for the fuzzer: what another agent's bytes go through, without a connection around it. Each returns
//! what was read in words, so that two readings can be compared. No part of the daemon calls them.

use super::agent::EventReader;
use super::answer::{AgentAnswer, AnswerBuilder};
use super::card;
use super::dialect::{Dialect, Interface};
use super::error::AgentCallError;
use super::event::{event, task};
use crate::guard::AddressGuard;
use crate::http::parse;
use bridge_core::secrets::Secrets;
use reqwest::Url;
use serde_json::Value;

/// Where the agent is that says all this.
const PLACE: &str = "https://agent.example/.well-known/agent-card.json";

fn place() -> Result<Url, String> {
    Url::parse(PLACE).map_err(|error| error.to_string())
}

/// Reads an agent card.
///
/// # Errors
///
/// It can't be used.
pub fn agent_card(bytes: &[u8]) -> Result<String, String> {
    let card: Value = parse(bytes).map_err(|error| error.to_string())?;
    let card = card::read(&card, &place()?, &AddressGuard::new(Vec::new()));
    card.map(|card| format!("{card:?}"))
        .map_err(|error| error.to_string())
}

/// Cuts a stream into the data of its events; the stream comes in two pieces.
///
/// # Errors
///
/// It is no stream of events.
pub fn events(first: &[u8], second: &[u8]) -> Result<Vec<String>, String> {
    let mut reader = EventReader::default();
    let mut events = reader.feed(first).map_err(|error| error.to_string())?;
    events.extend(reader.feed(second).map_err(|error| error.to_string())?);
    Ok(events)
}

/// Follows the data of events as one conversation, in each version of the protocol.
pub fn answers(data: &[String]) -> Result<Vec<Result<AgentAnswer, AgentCallError>>, String> {
    let url = place()?;
    let dialects = [Dialect::Rpc1, Dialect::Rest1, Dialect::Rpc03];
    let follow = |dialect| {
        let interface = Interface {
            dialect,
            url: url.clone(),
            tenant: None,
        };
        follow(&interface, data)
    };
    Ok(dialects.map(follow).into())
}

fn follow(interface: &Interface, data: &[String]) -> Result<AgentAnswer, AgentCallError> {
    let mut answer = AnswerBuilder::default();
    for text in data {
        let said: Value = parse(text.as_bytes())?;
        let said = interface.unwrap(said, &Secrets::default())?;
        if let Some(seen) = task(&said) {
            answer.show(seen);
            answer.check_size()?;
        }
        if let Some(event) = event(&said) {
            answer.take(event)?;
        }
    }
    Ok(answer.outcome())
}
