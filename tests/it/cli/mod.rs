//! The real program: what it prints, how it ends, what it leaves behind.

mod approval;
mod cache;
mod case;
mod check;
mod confine;
mod cut;
mod demo;
mod demo_all;
mod doctor;
mod events;
mod grants;
mod hostile;
mod inspect;
mod install;
mod install_hostile;
mod install_signed;
mod install_trust;
mod install_wider;
mod ledger;
mod new;
mod settings;
mod switch;
mod telemetry;
mod trace;
mod turn;
mod usage;
