//! Commands of `bash` and the kernel that confines them. Each case runs under every mechanism.

mod limits;
mod processes;
mod repositories;
mod work;
