//! `rind run`: one turn.

use std::io::IsTerminal;
use std::path::Path;
use std::pin::pin;

use anyhow::Context;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::approve::Asked;
use super::args::{RunArgs, ShowArgs};
use super::command::{self, Action, Call, Commands, Outcome};
use super::exit_code::{ExitStatus, Usage, bail_usage};
use super::programs::Programs;
use super::render::turn::TurnRenderer;
use super::render::waiting::TICK;
use super::signals::AnySignal;
use super::telemetry::Telemetry;
use super::{open, render};
use rind_lib::agent::{self, SteerHandle, TurnOutcome};
use rind_lib::event::{Events, Stamped};
use rind_lib::host::Session;
use rind_lib::message::Attachment;

pub(super) async fn run(args: RunArgs) -> anyhow::Result<ExitStatus> {
    let steers_from_stdin = args.steer_from.as_deref() == Some(Path::new("-"));
    let typed = args.prompt.as_deref();
    let line = typed.filter(|line| command::split(line).is_some());
    // Read piped input only once a prompt for it is certain.
    let prompt = match line {
        Some(_) => String::new(),
        None => super::input::prompt(typed, !steers_from_stdin)?,
    };
    let images = args.image.iter().map(|path| super::attach::file(path));
    let images: Vec<Attachment> = images
        .map(|image| image.map(|(_, image)| image).map_err(Usage))
        .collect::<Result<_, _>>()?;
    let programs = Programs::open(args.open.events.as_deref(), args.steer_from.as_deref())?;
    let has_terminal = std::io::stdin().is_terminal()
        && std::io::stderr().is_terminal()
        && args.prompt.as_deref() != Some("-")
        && !steers_from_stdin;
    let settings = args
        .open
        .run_settings(args.resume.as_deref(), has_terminal)?;
    let prepared = open::prepare(settings).await?;
    let input = match line {
        None => Input::Prompt(prompt, images),
        Some(line) => {
            if !images.is_empty() {
                bail_usage!("a slash command takes no images: pass --image with a prompt");
            }
            let commands = prepared.commands().await?;
            let call = commands.parse(line).map_err(Usage)?;
            if commands.needs_no_session(&call) {
                return alone(&commands, &call, args.show, programs).await;
            }
            if commands.is_about_session(&call) && args.resume.is_none() {
                bail_usage!(
                    "{} is about a session: pass --resume with its id or `last`",
                    line.escape_debug()
                );
            }
            Input::Command {
                commands,
                call,
                reads_stdin: !steers_from_stdin,
            }
        }
    };
    let opened = prepared.open().await?;
    if !args.show.json {
        render::note(&opened.chosen);
    }
    let (session, questions) = (opened.session, opened.questions);
    drop(opened.exits);
    let exit = turn(session, questions, input, args.show, programs).await;
    if has_terminal {
        super::terminal::drop_typed();
    }
    exit
}

/// Input of a run.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them in a process"
)]
pub(super) enum Input {
    /// A prompt, and images that belong to it.
    Prompt(String, Vec<Attachment>),
    Command {
        commands: Commands,
        call: Call,
        /// Whether piped input belongs to the prompt that the command makes.
        reads_stdin: bool,
    },
}

impl From<&str> for Input {
    fn from(prompt: &str) -> Self {
        Self::Prompt(prompt.to_owned(), Vec::new())
    }
}

/// Runs a command that needs no session.
async fn alone(
    commands: &Commands,
    call: &Call,
    show: ShowArgs,
    mut programs: Programs,
) -> anyhow::Result<ExitStatus> {
    // No turn runs: report every steering line as too late.
    programs.begin(SteerHandle::default(), &CancellationToken::new(), show.json);
    let (outcome, event) = commands.run_alone(call).await;
    let events = Events::default();
    let mut stamped = events.subscribe();
    events.emit(event);
    if let Some(stamped) = stamped.recv().await {
        programs.take(&stamped);
        if show.json {
            TurnRenderer::new(show).show(&stamped);
        }
    }
    programs.finish().await;
    let outcome = outcome?;
    if show.json {
        return Ok(ExitStatus::Done);
    }
    if let Some(text) = said(outcome)? {
        render::answer_line(render::prose(&text));
    }
    Ok(ExitStatus::Done)
}

/// Text of an outcome for the shell, where the run ends after a command.
fn said(outcome: Outcome) -> anyhow::Result<Option<String>> {
    match outcome {
        Outcome::Text(text) | Outcome::Prompt { text, .. } => Ok(Some(text)),
        Outcome::Nothing | Outcome::Action(Action::Quit) => Ok(None),
        Outcome::Action(Action::Resume { id, text }) => Ok(Some(format!(
            "{text}; to continue: rind run --resume {id} \"…\""
        ))),
        Outcome::Action(Action::Model(name)) => bail_usage!(
            "a run has one model: pass --model {} with the prompt",
            name.escape_debug()
        ),
    }
}

/// Result of a run.
enum Ran {
    Turn(TurnOutcome),
    Command(Option<String>),
}

/// Runs the turn, or the command and the turn that it may ask for.
async fn act(
    session: &mut Session,
    input: Input,
    cancel: &CancellationToken,
) -> anyhow::Result<Ran> {
    let (commands, call, reads_stdin) = match input {
        Input::Prompt(text, images) => {
            let turn = session.turn(text).attach(images).until(cancel);
            return Ok(Ran::Turn(turn.await?));
        }
        Input::Command {
            commands,
            call,
            reads_stdin,
        } => (commands, call, reads_stdin),
    };
    match commands.run(&call, Some(session), cancel).await? {
        Outcome::Prompt { text, command } => {
            let text = match reads_stdin {
                true => super::input::with_piped(&text)?,
                false => text,
            };
            let turn = session.turn(text).of_command(command).until(cancel);
            Ok(Ran::Turn(turn.await?))
        }
        outcome => Ok(Ran::Command(said(outcome)?)),
    }
}

/// Runs one turn and shows it to its end. The first Ctrl-C interrupts the turn, the second ends the
/// program.
pub(super) async fn turn(
    mut session: Session,
    questions: UnboundedReceiver<Asked>,
    input: impl Into<Input>,
    show: ShowArgs,
    mut programs: Programs,
) -> anyhow::Result<ExitStatus> {
    let cancel = CancellationToken::new();
    let over = CancellationToken::new();
    programs.begin(session.steering(), &cancel, show.json);
    let shown = tokio::spawn(show_all(
        TurnRenderer::new(show),
        Telemetry::from_env(),
        session.events(),
        questions,
        cancel.clone(),
        over.clone(),
        programs,
    ));
    // Register the handler here, not in the task: until it exists, Ctrl-C ends the process at once.
    let interrupted = AnySignal::interrupts().context("listen for Ctrl-C")?;
    tokio::spawn(interrupted.pass_on(cancel.clone()));
    let ran = act(&mut session, input.into(), &cancel).await;
    let id = session.id().clone();
    let closed = session.close().await;
    over.cancel();
    let _ = shown.await;
    let outcome = match ran {
        // The command was interrupted. A session error (`agent::Error`) is a failure even then.
        Err(error) if cancel.is_cancelled() && !error.is::<agent::Error>() => {
            closed?;
            render::error(&error);
            return Ok(ExitStatus::Interrupted);
        }
        ran => ran?,
    };
    let outcome = match outcome {
        Ran::Turn(outcome) => outcome,
        Ran::Command(text) => {
            closed?;
            if let Some(text) = text.filter(|_| !show.json) {
                render::answer_line(render::prose(&text));
            }
            return Ok(match cancel.is_cancelled() {
                true => ExitStatus::Interrupted,
                false => ExitStatus::Done,
            });
        }
    };
    closed?;
    let exit = ExitStatus::from(outcome.summary.stop);
    match exit {
        _ if show.json => {}
        ExitStatus::Done => {}
        // The refused text is part of the session now.
        ExitStatus::Blocked => render::note(
            "this session contains the blocked text and will be blocked again; start another: rind run \"…\"",
        ),
        _ => render::note(&format!("to continue: rind run --resume {id} \"…\"")),
    }
    Ok(exit)
}

/// Most events that are shown at once, before a question or a signal has its turn.
const MAX_BATCH: usize = 64;

/// Shows the events of a session and asks the questions of its turns, until it is `over`.
pub(super) async fn show_all(
    mut renderer: TurnRenderer,
    mut telemetry: Telemetry,
    mut events: UnboundedReceiver<Stamped>,
    mut questions: UnboundedReceiver<Asked>,
    cancel: CancellationToken,
    over: CancellationToken,
    mut programs: Programs,
) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut is_interrupted = false;
    let mut is_over = false;
    let mut batch = Vec::new();
    while !is_over {
        tokio::select! {
            // Events before questions: a question is shown after the events that led to it.
            biased;
            n_events = events.recv_many(&mut batch, MAX_BATCH) => {
                renderer.show_all(&batch);
                for event in batch.drain(..) {
                    telemetry.take(&event);
                    programs.take(&event);
                }
                is_over = n_events == 0;
            }
            // Close the receiver instead of waiting for all senders to drop. Events sent before
            // still arrive, also after an event that another thread is still sending: until that is
            // complete, `recv_many` waits.
            () = over.cancelled(), if !events.is_closed() => events.close(),
            () = cancel.cancelled(), if !is_interrupted => {
                is_interrupted = true;
                renderer.interrupted();
            }
            Some(asked) = questions.recv() => {
                renderer.pause();
                let mut put = pin!(asked.put(&cancel));
                // Show no events while the question is on the screen, but pass them to the
                // programs: one of them may end the turn.
                let mut unseen = Vec::new();
                loop {
                    tokio::select! {
                        biased;
                        () = &mut put => break,
                        event = events.recv(), if !is_over => match event {
                            Some(event) => {
                                telemetry.take(&event);
                                programs.take(&event);
                                match renderer.shows_elsewhere() {
                                    true => renderer.show(&event),
                                    false => unseen.push(event),
                                }
                            }
                            None => is_over = true,
                        },
                        line = programs.line() => programs.steer(line),
                    }
                }
                unseen.iter().for_each(|event| renderer.show(event));
            }
            line = programs.line() => programs.steer(line),
            _ = ticks.tick() => renderer.tick(),
        }
    }
    programs.finish().await;
    renderer.finish();
    telemetry.finish().await;
}
