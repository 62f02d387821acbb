//! Sessions on real servers.

mod dead;
mod figures;
mod moved;
mod races;
mod servers;
mod store;
mod workers;
