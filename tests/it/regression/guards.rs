//! Tests of plugins that cannot run, unread rules, costs and the audit log.

mod absent;
mod audit;
mod cost;
mod missing;
