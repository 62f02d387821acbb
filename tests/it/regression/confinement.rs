//! Commands of `bash` and the kernel that confines them. Each case runs under every mechanism.

mod aftermath;
mod limits;
mod processes;
mod repositories;
mod users;
mod work;
