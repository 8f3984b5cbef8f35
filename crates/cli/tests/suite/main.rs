//! The whole program from outside: the built binary, the real Codex, the scripted model, real signals and kills.
//! One file per promise; the rig is in `world`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on must fail where it stands"
)]

mod a2a_agent;
mod a2a_ancestor;
mod a2a_pair;
mod a2a_push;
mod a2a_questions;
mod a2a_stream;
mod a2a_threats;
mod a2a_wire;
mod agent;
mod ask_agent;
mod asked;
mod attachments;
mod backlog;
mod chat;
mod codex_faults;
mod codex_streams;
mod codex_threads;
mod control_asks;
mod control_cli;
mod control_tasks;
mod crash;
mod crash_points;
mod dead;
mod demo;
mod drill;
mod effects;
mod endless;
mod exec;
mod fair_share;
mod fake;
mod floods;
mod foreign;
mod histories;
mod homes;
mod http;
mod input;
mod key;
mod local_peers;
mod memory;
mod model_faults;
mod molecule_faults;
mod molecule_once;
mod molecule_order;
mod molecule_origins;
mod molecule_promises;
mod molecule_seeds;
mod molecule_talk;
mod molecule_threats;
mod node;
mod notifications;
mod outbox;
mod people;
mod platforms;
mod policy;
mod power;
mod processes;
mod red_team;
mod reload;
mod requests;
mod requests_chat;
mod requests_deaths;
mod requests_lost;
mod schedule;
mod scripted_api;
mod secrets;
mod sending;
mod service;
mod setup;
mod shield;
mod stand;
mod steer;
mod stop;
mod store_faults;
mod tasks;
mod terminal;
mod token_reads;
mod traces;
mod workspace;
mod world;
