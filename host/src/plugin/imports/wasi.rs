//! Links WASI, interface by interface. The implementations are wasmtime's, but files are restricted
//! to the granted directories and HTTP requests to the granted hosts.

use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::p2::bindings::{LinkOptions, cli, filesystem, random, sockets};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};

use super::super::host::HostState;

/// Name under which calls of `wasi:filesystem` are counted in tests.
const FILESYSTEM_CALL_COUNTER_NAME: &str = "wasi:filesystem";

/// Links `wasi:io`, `wasi:clocks`, `wasi:random/random`, and the three standard streams.
pub(super) fn link_streams(l: &mut Linker<HostState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)
}

/// Links the part of `wasi:http` for outgoing requests, which reach only the granted hosts.
pub(super) fn link_http(l: &mut Linker<HostState>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(l)
}

/// Links the interfaces of `wasi:random` other than `random`.
pub(super) fn link_insecure_random(l: &mut Linker<HostState>) -> wasmtime::Result<()> {
    random::insecure::add_to_linker::<HostState, WasiRandom>(l, |t| t.ctx().ctx.random())?;
    random::insecure_seed::add_to_linker::<HostState, WasiRandom>(l, |t| t.ctx().ctx.random())
}

/// Links the interfaces of `wasi:cli` other than the standard streams.
pub(super) fn link_cli(l: &mut Linker<HostState>) -> wasmtime::Result<()> {
    cli::exit::add_to_linker::<HostState, WasiCli>(l, HostState::cli)?;
    cli::environment::add_to_linker::<HostState, WasiCli>(l, HostState::cli)?;
    cli::terminal_input::add_to_linker::<HostState, WasiCli>(l, HostState::cli)?;
    cli::terminal_output::add_to_linker::<HostState, WasiCli>(l, HostState::cli)?;
    cli::terminal_stdin::add_to_linker::<HostState, WasiCli>(l, HostState::cli)?;
    cli::terminal_stdout::add_to_linker::<HostState, WasiCli>(l, HostState::cli)?;
    cli::terminal_stderr::add_to_linker::<HostState, WasiCli>(l, HostState::cli)
}

/// Links `wasi:filesystem`, through which a guest reaches only the granted directories.
pub(super) fn link_wasi_filesystem(l: &mut Linker<HostState>) -> wasmtime::Result<()> {
    filesystem::preopens::add_to_linker::<HostState, HasSelf<_>>(l, |state| {
        state.count_import_call(FILESYSTEM_CALL_COUNTER_NAME)
    })?;
    filesystem::types::add_to_linker::<HostState, HasSelf<_>>(l, |state| {
        state.count_import_call(FILESYSTEM_CALL_COUNTER_NAME)
    })
}

/// Links sockets whose every use is denied, for components that import but do not need them.
pub(super) fn link_sockets(l: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let options = LinkOptions::default();
    sockets::network::add_to_linker::<HostState, WasiSockets>(
        l,
        &(&options).into(),
        HostState::sockets,
    )?;
    sockets::instance_network::add_to_linker::<HostState, WasiSockets>(l, HostState::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<HostState, WasiSockets>(l, HostState::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<HostState, WasiSockets>(l, HostState::sockets)?;
    sockets::tcp::add_to_linker::<HostState, WasiSockets>(l, HostState::sockets)?;
    sockets::udp_create_socket::add_to_linker::<HostState, WasiSockets>(l, HostState::sockets)?;
    sockets::udp::add_to_linker::<HostState, WasiSockets>(l, HostState::sockets)
}
