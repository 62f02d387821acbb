//! stub
use super::args::DemoArgs;
use super::exit::Exit;
pub(super) async fn demo(_args: DemoArgs) -> anyhow::Result<Exit> {
    Ok(Exit::Done)
}
