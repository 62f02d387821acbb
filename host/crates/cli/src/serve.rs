//! `rind serve`: the loops of plugins, until all are done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::args::ServeArgs;
use super::event_file::EventFile;
use super::exit_code::{ExitStatus, bail_usage};
use super::render::serve::LoopRenderer;
use super::signals::AnySignal;
use super::{open, render};
use rind_lib::event::Stamped;
use rind_lib::loops::{EndReason, Error, LoopEnd, Loops};
use rind_operator::settings::SessionChoice;

/// Capacity of the queue of events to show; a loop starts its next run only once the events of its
/// last run fit.
const MAX_WAITING_EVENTS: usize = 256;

/// Timeout for writing the last events at exit: a pipe without a reader must not block it.
const GRACE: Duration = Duration::from_secs(2);

pub(super) async fn run_serve(args: ServeArgs) -> anyhow::Result<ExitStatus> {
    let file = args.open.events.as_deref().map(EventFile::open_file);
    let file = file.transpose()?;
    // Ask no questions, even at a terminal: a question would block one loop and hold back the
    // output of the others.
    let prepared =
        open::prepare_session(args.open.run_settings(SessionChoice::New, false)?).await?;
    let ready = prepared.build_host().await?;
    let host = &ready.run.host;
    let loops = match Loops::open(&host.host) {
        Err(error @ Error::NoLoop) => bail_usage!(
            "{error}, so there is nothing to serve: name a plugin that has one with --plugin, or see `rind plugin list` for why one \
             does not run; `rind plugin new NAME --kind loop` makes one"
        ),
        loops => loops?,
    };
    host.warn_misplaced(&loops.tools());
    let of_session = loops.sessions();
    let of_session: BTreeMap<Arc<str>, String> = of_session
        .map(|(plugin, session)| (session.clone(), plugin.to_owned()))
        .collect();
    if !args.json {
        render::print_note(&ready.run.chosen);
        render::serve::print_beginning(of_session.values());
    }
    let cancel = CancellationToken::new();
    let interrupted = AnySignal::interrupts().context("listen for Ctrl-C")?;
    drop(ready.exits);
    tokio::spawn(interrupted.pass_on(cancel.clone()));
    let (sender, events) = mpsc::channel(MAX_WAITING_EVENTS);
    let renderer = LoopRenderer::new(of_session, &render::lines::of_process(), args.json);
    let shown = show_loops(events, renderer, file);
    let ends = loops.watch(sender).run(&cancel).await;
    if tokio::time::timeout(GRACE, shown).await.is_err() {
        tracing::warn!("the last events were not written: nobody reads them");
    }
    if !args.json {
        ends.iter().for_each(render::serve::print_end);
    }
    Ok(exit_status(&ends, cancel.is_cancelled()))
}

/// Shows events on a thread of its own: a write blocks while a pipe has no reader, and must not
/// block signals and loops.
fn show_loops(
    mut events: Receiver<Stamped>,
    mut renderer: LoopRenderer,
    mut file: Option<EventFile>,
) -> JoinHandle<()> {
    tokio::task::spawn_blocking(move || {
        while let Some(stamped) = events.blocking_recv() {
            if let Some(file) = &mut file {
                file.write_event(&stamped);
            }
            renderer.show_event(&stamped);
        }
    })
}

fn exit_status(ends: &[LoopEnd], is_interrupted: bool) -> ExitStatus {
    let has_failed = |end: &LoopEnd| matches!(end.why, EndReason::Failed(_) | EndReason::Broken(_));
    if ends.iter().any(has_failed) {
        ExitStatus::Failed
    } else if is_interrupted {
        ExitStatus::Interrupted
    } else {
        ExitStatus::Done
    }
}
