//! `rind run --nats`: sends a prompt to a worker and follows the turn from this terminal.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;

use super::super::args::RunArgs;
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::{input, render};
use super::follow::RemoteTurnDisplay;
use super::shared_session::ClusterSessionClient;
use rind_lib::event::{Event, Stamped};
use rind_nats::NatsError;
use rind_nats::worker::EndedTurnResult;

/// Timeout for the last events of a turn after the store has reported its end.
const LAST_EVENTS_OF_TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends the prompt to a session, waits for the end of its turn and prints the answer.
pub(crate) async fn run_prompt_on_worker(args: RunArgs) -> anyhow::Result<ExitStatus> {
    let is_plain = args.image.is_empty()
        && args.output_schema.is_none()
        && args.max_cost.is_none()
        && args.max_steps.is_none()
        && args.steer_from.is_none();
    if !is_plain {
        bail_usage!(
            "with --nats a worker runs the turn and gets only the prompt: --image, --output-schema, --max-cost, --max-steps and --steer-from are not supported"
        );
    }
    let Some(prompt) = input::read_prompt_and_piped_input(args.prompt.as_deref(), true, false)?
    else {
        bail_usage!("pass a prompt");
    };
    let remote = args.remote;
    let Some(nats) = remote.store.into_nats_args() else {
        bail_usage!("pass --nats");
    };
    let (sessions, inbox) = nats.connect_with_session_inbox().await?;
    let session = args.session.or(args.resume);
    let session = session.unwrap_or_else(rind_lib::clock::new_uuid_v7);
    let id = args.input_id.unwrap_or_else(rind_lib::clock::new_uuid_v7);
    inbox.send(&session, &remote.class, &id, &prompt).await?;
    render::print_note(&format!(
        "session {session}, input {id}; Ctrl-C interrupts the turn; it continues if this program ends in any other way"
    ));
    let turn = RemoteTurnDisplay {
        session: ClusterSessionClient::new(&sessions, &session),
        input_id: id.clone(),
        has_terminal: std::io::stdin().is_terminal()
            && std::io::stderr().is_terminal()
            && args.prompt.as_deref() != Some("-"),
        is_json: args.show.json,
        has_begun: Cell::new(false),
    };
    let end = inbox.wait_for_turn_end(&sessions, &session, &id);
    let Some(ended) = follow_turn_to_end(&turn, end).await? else {
        render::print_note("the turn continues; `rind cluster status` shows its worker");
        return Ok(ExitStatus::Interrupted);
    };
    if turn.is_json {
        if !turn.has_turn_begun() {
            print_turn_end(&session, &ended)?;
        }
        return Ok(ended.summary.stop.into());
    }
    let answer = render::printable_text(ended.output.trim_end());
    render::print_to_stdout(format_args!("{answer}\n"));
    Ok(ended.summary.stop.into())
}

/// Prints a `turn-end` event for a turn whose events did not arrive, such as one that ended
/// earlier.
fn print_turn_end(session: &str, ended: &EndedTurnResult) -> anyhow::Result<()> {
    let end = Stamped {
        at: jiff::Timestamp::now(),
        session: Some(session.into()),
        agent: "main".into(),
        turn: ended.turn,
        step: ended.summary.steps,
        event: Event::TurnEnd {
            turn: ended.turn,
            summary: ended.summary.clone(),
            output: ended.output.clone(),
        },
    };
    let line = serde_json::to_string(&end).context("cannot write the end of the turn as JSON")?;
    render::print_to_stdout(format_args!("{line}\n"));
    Ok(())
}

/// Follows a turn to its end. The first Ctrl-C interrupts a running turn. Returns `None` if Ctrl-C
/// is pressed while the turn does not run, or again after the interruption.
async fn follow_turn_to_end(
    turn: &RemoteTurnDisplay,
    end: impl Future<Output = Result<EndedTurnResult, NatsError>>,
) -> anyhow::Result<Option<EndedTurnResult>> {
    let (mut end, mut follow) = (std::pin::pin!(end), std::pin::pin!(turn.show_until_end()));
    let (mut is_interrupted, mut is_followed) = (false, false);
    let ended = loop {
        tokio::select! {
            biased;
            () = &mut follow, if !is_followed => is_followed = true,
            ended = &mut end => break ended?,
            pressed = tokio::signal::ctrl_c() => {
                pressed.context("cannot listen for Ctrl-C")?;
                // Another turn may run in the session until this one begins, and must not be
                // interrupted.
                if is_interrupted || !turn.has_turn_begun() || !turn.session.interrupt_turn().await? {
                    return Ok(None);
                }
                is_interrupted = true;
                render::print_note("interrupted; Ctrl-C again leaves the turn");
            }
        }
    };
    // Wait for the last events, because the store may report the end of the turn before all events
    // have arrived.
    if turn.has_turn_begun() && !is_followed {
        let _ = tokio::time::timeout(LAST_EVENTS_OF_TURN_TIMEOUT, follow).await;
    }
    Ok(Some(ended))
}
