//! The real program: what it prints, how it ends, what it leaves behind.

mod approval;
mod cut;
mod demo;
mod grants;
mod hostile;
mod inspect;
mod turn;
mod usage;
