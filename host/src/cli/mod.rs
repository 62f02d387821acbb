//! cli
mod render;
