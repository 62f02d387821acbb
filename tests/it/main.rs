//! End-to-end tests, one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod agent_loop;
mod aimock;
mod archive;
mod author;
mod blobs;
mod checkpoint;
mod cli;
mod command;
mod compact;
mod compile;
mod contract;
mod core;
mod dispatch;
mod documents;
mod evolution;
mod examples;
mod external;
mod files;
mod fuzz;
mod grant;
mod harness;
mod host;
mod image;
mod leak;
mod lifecycle;
mod load;
mod loop_turns;
mod mcp;
mod network;
mod plugins;
mod points;
mod properties;
mod provider;
mod regression;
mod replace;
mod sandbox;
mod secret;
mod serve;
mod session;
mod skill;
mod skill_session;
mod skill_write;
mod subagent;
mod tidy;
mod tool;
mod turn;
mod websocket;
