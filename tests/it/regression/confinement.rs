//! Tests of `bash` commands that the kernel confines. Each case runs under every mechanism.

mod aftermath;
mod alone;
mod end;
mod environment;
mod limits;
mod loopback;
mod processes;
mod repositories;
mod users;
mod work;
