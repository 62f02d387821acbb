//! Plugins that cannot run, budgets, costs and the audit log.

mod absent;
mod audit;
mod cost;
mod missing;
