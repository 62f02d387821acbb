//! `rind run`: runs one turn or one command.

use std::io::IsTerminal;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::approve::TerminalQuestion;
use super::args::{RunArgs, TurnOutputArgs};
use super::command::{
    self, PostCommandSessionAction, SlashCommandCall, SlashCommandRunOutcome, SlashCommandSet,
};
use super::exit_code::{ExitStatus, Usage, bail_usage};
use super::programs::TurnInputOutputChannels;
use super::render::turn::TurnRenderer;
use super::render::waiting::SPINNER_REDRAW_INTERVAL;
use super::resource::{
    check_command_mentions_no_resource, fetch_and_append_resources, find_resource_mentions,
    server_names,
};
use super::signals::ShutdownSignals;
use super::telemetry::TraceExporter;
use super::{open, render};
use rind_lib::agent::{self, AgentSteeringHandle, AnswerSchema, TurnOutcome};
use rind_lib::event::{EventSender, Stamped};
use rind_lib::host::{Session, Turn};
use rind_lib::message::PromptImageAttachment;
use rind_lib::tool::policy::ApprovalMode;
use rind_operator::settings::SessionChoice;

pub(super) async fn run_prompt(args: RunArgs) -> anyhow::Result<ExitStatus> {
    #[cfg(feature = "nats")]
    if args.remote.is_turn_run_by_worker() {
        return super::cluster::run_prompt_on_worker(args).await;
    }
    let steers_from_stdin = args.steer_from.as_deref() == Some(Path::new("-"));
    let typed = args.prompt.as_deref();
    let line = typed.filter(|line| command::split_command(line).is_some());
    // Do not read piped input for a command yet, because the command may create no prompt to append
    // it to.
    let prompt = match line {
        Some(_) => None,
        None => super::input::read_prompt_and_piped_input(
            typed,
            !steers_from_stdin,
            args.resume.is_some(),
        )?,
    };
    let images = args
        .image
        .iter()
        .map(|path| super::attach::attach_image_file(path));
    let images: Vec<PromptImageAttachment> = images
        .map(|image| image.map(|(_, image)| image).map_err(Usage))
        .collect::<Result<_, _>>()?;
    let programs = TurnInputOutputChannels::open_from_paths(
        args.open.events.as_deref(),
        args.steer_from.as_deref(),
    )?;
    let has_terminal = std::io::stdin().is_terminal()
        && std::io::stderr().is_terminal()
        && args.prompt.as_deref() != Some("-")
        && !steers_from_stdin;
    let demands = TurnOptions {
        images,
        answer_schema: args
            .output_schema
            .as_deref()
            .map(read_answer_schema)
            .transpose()?,
        max_cost_usd: args.max_cost,
        input_id: args.input_id,
        typed: typed.filter(|text| *text != "-").map(str::to_owned),
        is_dry_run: args.open.dry_run,
    };
    let session = match args.session {
        Some(id) => SessionChoice::Named(id),
        None => SessionChoice::resume_or_new(args.resume.as_deref()),
    };
    let mut settings = args.open.to_run_settings(session, has_terminal)?;
    let is_planning = settings.approval == ApprovalMode::Plan;
    let max_steps = args.max_steps.map(|n| format!("agent.max_steps={n}"));
    settings.model.set.extend(max_steps);
    let prepared = open::prepare_session(settings).await?;
    let input = match line {
        None => match prompt {
            Some(prompt) => TurnOrCommandInput::Prompt(prompt, demands),
            None => TurnOrCommandInput::Continue(demands),
        },
        Some(line) => {
            if !demands.images.is_empty() {
                bail_usage!("slash commands do not accept images: pass --image with a prompt");
            }
            let commands = prepared.collect_slash_commands().await?;
            let call = commands.parse_call(line).map_err(Usage)?;
            if commands.can_run_without_session(&call) {
                return run_command_without_session(&commands, &call, args.show, programs).await;
            }
            if commands.is_call_needing_session(&call) && args.resume.is_none() {
                bail_usage!(
                    "{} needs a session: pass --resume with its id or `last`",
                    line.escape_debug()
                );
            }
            TurnOrCommandInput::Command {
                commands,
                call,
                reads_stdin: !steers_from_stdin,
                demands,
            }
        }
    };
    let opened = prepared.open_session().await?;
    if !args.show.json {
        render::print_note(&format!(
            "{}{}",
            opened.chosen,
            approval_mode_note_for_run(&opened)
        ));
    }
    if let TurnOrCommandInput::Command { commands, .. } = &input {
        commands.set_question_asker(opened.asker);
    }
    let (session, questions) = (opened.session, opened.questions);
    drop(opened.exits);
    let id = session.id().clone();
    let exit = run_and_show_turn_or_command(session, questions, input, args.show, programs).await;
    if is_planning && !args.show.json && matches!(exit, Ok(ExitStatus::Done)) {
        render::print_note(&format!(
            "to carry out the plan: rind run --resume {id} --mode accept-edits \"carry out the plan\""
        ));
    }
    if has_terminal {
        super::terminal::discard_typed_input();
    }
    exit
}

/// Returns a note on the approval mode, unless it is the default.
fn approval_mode_note_for_run(opened: &open::SessionWithUserQuestionChannels) -> String {
    let mode = match opened.switch.mode() {
        ApprovalMode::Ask => String::new(),
        mode => format!(" · mode {mode}"),
    };
    let dry_run = if opened.is_dry_run { " · dry run" } else { "" };
    mode + dry_run
}

/// Prompt, continuation or command that `rind run` executes.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of them in a process"
)]
pub(super) enum TurnOrCommandInput {
    /// Prompt of the user, with the requirements on the turn that answers it.
    Prompt(String, TurnOptions),
    /// Continue the interrupted turn of the session, without a prompt.
    Continue(TurnOptions),
    Command {
        commands: SlashCommandSet,
        call: SlashCommandCall,
        /// Whether piped input is added to the prompt that the command creates.
        reads_stdin: bool,
        /// Requirements on the turn that runs the command's prompt.
        demands: TurnOptions,
    },
}

/// Images of a turn, and requirements on the turn, such as the schema of its answer and its maximum
/// cost.
#[derive(Default)]
pub(super) struct TurnOptions {
    images: Vec<PromptImageAttachment>,
    answer_schema: Option<AnswerSchema>,
    max_cost_usd: Option<f64>,
    input_id: Option<String>,
    /// Typed part of the prompt. Only this part may mention resources of MCP servers, because piped
    /// text may come from anyone.
    typed: Option<String>,
    /// Whether tool calls are only described and not run.
    is_dry_run: bool,
}

impl TurnOptions {
    fn apply_images_and_limits_to_turn(self, mut turn: Turn<'_>) -> Turn<'_> {
        if let Some(schema) = self.answer_schema {
            turn = turn.answer_schema(schema);
        }
        if let Some(id) = self.input_id {
            turn = turn.input_id(id);
        }
        if let Some(usd) = self.max_cost_usd {
            turn = turn.max_cost_usd(usd);
        }
        turn.attach(self.images)
    }

    /// Fetches the resources that the typed part of the prompt mentions. Returns `text` with their
    /// contents appended.
    async fn append_resources_to_prompt(
        &mut self,
        text: String,
        session: &mut Session,
        cancel: &CancellationToken,
    ) -> anyhow::Result<String> {
        let typed = self.typed.take().unwrap_or_default();
        let servers = server_names(&session.materials());
        let unsent = |why: String| Usage(format!("the prompt was not sent: {why}"));
        let mentions = find_resource_mentions(&typed, &servers).map_err(unsent)?;
        let filled =
            fetch_and_append_resources(&text, &mentions, session, self.is_dry_run, cancel).await;
        let filled = filled.map_err(unsent)?;
        self.images.extend(filled.images);
        Ok(filled.text)
    }
}

/// Reads the JSON Schema that the answer must match.
fn read_answer_schema(path: &Path) -> anyhow::Result<AnswerSchema> {
    let wrong = |why: String| Usage(format!("--output-schema {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let schema = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(AnswerSchema::compile(&schema).map_err(wrong)?)
}

impl From<&str> for TurnOrCommandInput {
    fn from(prompt: &str) -> Self {
        Self::Prompt(prompt.to_owned(), TurnOptions::default())
    }
}

/// Runs a command that needs no session, and prints its result.
async fn run_command_without_session(
    commands: &SlashCommandSet,
    call: &SlashCommandCall,
    show: TurnOutputArgs,
    mut programs: TurnInputOutputChannels,
) -> anyhow::Result<ExitStatus> {
    // Answer every steering line as too late, because no turn will run.
    programs.begin_steering_turn_from_input(
        AgentSteeringHandle::default(),
        &CancellationToken::new(),
        show.json,
    );
    let (outcome, event) = commands.run_sessionless_command(call).await;
    let events = EventSender::default();
    let mut stamped = events.subscribe();
    events.emit(event);
    if let Some(stamped) = stamped.recv().await {
        programs.forward_event_to_followers(&stamped);
        if show.json {
            TurnRenderer::new(show).show_event(&stamped);
        }
    }
    programs.reject_late_steering_lines().await;
    let outcome = outcome?;
    if show.json {
        return Ok(ExitStatus::Done);
    }
    if let Some(text) = slash_command_text_to_print(outcome)? {
        render::print_stdout_line(render::escape_prose_for_display(&text));
    }
    Ok(ExitStatus::Done)
}

/// Returns the text to print for the outcome of a command.
fn slash_command_text_to_print(outcome: SlashCommandRunOutcome) -> anyhow::Result<Option<String>> {
    match outcome {
        SlashCommandRunOutcome::Text(text) | SlashCommandRunOutcome::Prompt { text, .. } => {
            Ok(Some(text))
        }
        SlashCommandRunOutcome::Nothing
        | SlashCommandRunOutcome::Action(
            PostCommandSessionAction::Quit | PostCommandSessionAction::Continue,
        ) => Ok(None),
        SlashCommandRunOutcome::Action(PostCommandSessionAction::Resume { id, text }) => Ok(Some(
            format!("{text}; to continue: rind run --resume {id} \"…\""),
        )),
        SlashCommandRunOutcome::Action(PostCommandSessionAction::Copy(text)) => Ok(Some(text)),
        SlashCommandRunOutcome::Action(
            PostCommandSessionAction::New | PostCommandSessionAction::Reload,
        ) => {
            bail_usage!(
                "this command works only in the chat; a run without --resume begins a new session"
            )
        }
        SlashCommandRunOutcome::Action(PostCommandSessionAction::Model(name)) => bail_usage!(
            "a run has one model: pass --model {} with the prompt",
            name.escape_debug()
        ),
    }
}

/// Outcome of the turn that was run, or the text of a command that ran no turn.
enum TurnOrCommandResult {
    Turn(TurnOutcome),
    Command(Option<String>),
}

/// Continues the interrupted turn of the session.
async fn continue_interrupted_turn(
    session: &mut Session,
    demands: TurnOptions,
    cancel: &CancellationToken,
) -> anyhow::Result<TurnOrCommandResult> {
    let id = session.id().clone();
    let Some(turn) = session.continue_turn() else {
        bail_usage!(
            "no turn of session {id} was interrupted, so there is none to continue; pass a prompt"
        );
    };
    Ok(TurnOrCommandResult::Turn(
        demands
            .apply_images_and_limits_to_turn(turn)
            .until(cancel)
            .await?,
    ))
}

/// Runs the turn of a prompt; or runs a command, and then the turn of the prompt that it created.
async fn run_turn_or_command(
    session: &mut Session,
    input: TurnOrCommandInput,
    cancel: &CancellationToken,
) -> anyhow::Result<TurnOrCommandResult> {
    let (commands, call, reads_stdin, demands) = match input {
        TurnOrCommandInput::Prompt(text, mut demands) => {
            let text = demands
                .append_resources_to_prompt(text, session, cancel)
                .await?;
            let turn = demands
                .apply_images_and_limits_to_turn(session.turn(text))
                .until(cancel);
            return Ok(TurnOrCommandResult::Turn(turn.await?));
        }
        TurnOrCommandInput::Continue(demands) => {
            return continue_interrupted_turn(session, demands, cancel).await;
        }
        TurnOrCommandInput::Command {
            commands,
            call,
            reads_stdin,
            demands,
        } => (commands, call, reads_stdin, demands),
    };
    check_command_mentions_no_resource(call.typed_line(), &session.materials()).map_err(Usage)?;
    match commands
        .run_command_call(&call, Some(session), cancel)
        .await?
    {
        SlashCommandRunOutcome::Action(PostCommandSessionAction::Continue) => {
            continue_interrupted_turn(session, demands, cancel).await
        }
        SlashCommandRunOutcome::Prompt {
            text,
            command,
            images,
        } => {
            let text = match reads_stdin {
                true => super::input::append_piped_input(&text)?,
                false => text,
            };
            let turn = session.turn(text).of_command(command).attach(images);
            let turn = demands.apply_images_and_limits_to_turn(turn).until(cancel);
            Ok(TurnOrCommandResult::Turn(turn.await?))
        }
        outcome => Ok(TurnOrCommandResult::Command(slash_command_text_to_print(
            outcome,
        )?)),
    }
}

/// Runs one turn, or a command, and shows it to its end. The first Ctrl-C interrupts it, the second
/// ends the program.
pub(super) async fn run_and_show_turn_or_command(
    mut session: Session,
    questions: UnboundedReceiver<TerminalQuestion>,
    input: impl Into<TurnOrCommandInput>,
    show: TurnOutputArgs,
    mut programs: TurnInputOutputChannels,
) -> anyhow::Result<ExitStatus> {
    let cancel = CancellationToken::new();
    let over = CancellationToken::new();
    programs.begin_steering_turn_from_input(session.steering(), &cancel, show.json);
    let shown = tokio::spawn(show_events_and_ask_questions(
        TurnRenderer::new(show).with_live_outputs(session.live_outputs()),
        TraceExporter::from_env(),
        session.events(),
        questions,
        cancel.clone(),
        over.clone(),
        programs,
    ));
    // Register the handler here, not in the task: until it exists, Ctrl-C ends the process at once.
    let interrupted =
        ShutdownSignals::listen_for_interrupts().context("cannot listen for Ctrl-C")?;
    tokio::spawn(interrupted.cancel_then_exit_on_second_signal(cancel.clone()));
    let ran = run_turn_or_command(&mut session, input.into(), &cancel).await;
    let id = session.id().clone();
    let closed = session.close().await;
    over.cancel();
    let _ = shown.await;
    let outcome = match ran {
        // The command was interrupted. A session error (`agent::Error`) still counts as a failure.
        Err(error) if cancel.is_cancelled() && !error.is::<agent::Error>() => {
            closed?;
            render::print_error(&error);
            return Ok(ExitStatus::Interrupted);
        }
        // The turn has already shown this error with its remedy.
        Err(error)
            if matches!(error.downcast_ref(), Some(agent::Error::Session(_))) && !show.json =>
        {
            return Ok(ExitStatus::Failed);
        }
        ran => ran?,
    };
    let outcome = match outcome {
        TurnOrCommandResult::Turn(outcome) => outcome,
        TurnOrCommandResult::Command(text) => {
            closed?;
            if let Some(text) = text.filter(|_| !show.json) {
                render::print_stdout_line(render::escape_prose_for_display(&text));
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
        // The session keeps the refused text, so every further turn would be refused too.
        ExitStatus::Blocked => render::print_note(
            "this session contains the blocked text and will be blocked again; start a new session: rind run \"…\"",
        ),
        _ => render::print_note(&format!("to continue: rind run --resume {id} \"…\"")),
    }
    Ok(exit)
}

/// Maximum number of events that are shown before questions and signals are checked again.
const MAX_EVENTS_PER_BATCH: usize = 64;

/// Time in which events collect before the next batch is shown. Otherwise the turn would wake this
/// task for every event, which costs more than creating the event.
const EVENT_BATCH_DELAY: Duration = Duration::from_millis(1);

/// Shows the events of a session and asks the questions of its turns, until `over` is cancelled and
/// all events are shown.
pub(super) async fn show_events_and_ask_questions(
    mut renderer: TurnRenderer,
    mut telemetry: TraceExporter,
    mut events: UnboundedReceiver<Stamped>,
    mut questions: UnboundedReceiver<TerminalQuestion>,
    cancel: CancellationToken,
    over: CancellationToken,
    mut programs: TurnInputOutputChannels,
) {
    let mut ticks = tokio::time::interval(SPINNER_REDRAW_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut is_interrupted = false;
    let mut is_over = false;
    let mut batch = Vec::new();
    let mut gathering = pin!(tokio::time::sleep(Duration::ZERO));
    let mut is_gathering = false;
    while !is_over {
        tokio::select! {
            // Poll events before questions, so that a question appears after the events that led to
            // it.
            biased;
            () = &mut gathering, if is_gathering => is_gathering = false,
            n_events = events.recv_many(&mut batch, MAX_EVENTS_PER_BATCH), if !is_gathering => {
                // A full batch means that more events are ready: show them without delay.
                is_gathering = n_events < MAX_EVENTS_PER_BATCH;
                gathering.as_mut().reset(Instant::now() + EVENT_BATCH_DELAY);
                renderer.show_events(&batch);
                for event in batch.drain(..) {
                    telemetry.export_event(&event);
                    programs.forward_event_to_followers(&event);
                }
                is_over = n_events == 0;
            }
            // Close the receiver instead of waiting for all senders to drop. Events sent before
            // still arrive; if another thread is in the middle of sending, `recv_many` waits for
            // that event.
            () = over.cancelled(), if !events.is_closed() => events.close(),
            () = cancel.cancelled(), if !is_interrupted => {
                is_interrupted = true;
                renderer.show_turn_interrupted();
            }
            Some(asked) = questions.recv(), if !is_gathering => {
                renderer.clear_wait_line_and_answer_tail();
                let mut put = pin!(asked.ask_and_answer(&cancel));
                // Do not show events while the question is on the screen, but pass them to the
                // programs that follow the turn, one of which may end it.
                let mut unseen = Vec::new();
                loop {
                    tokio::select! {
                        biased;
                        () = &mut put => break,
                        event = events.recv(), if !is_over => match event {
                            Some(event) => {
                                telemetry.export_event(&event);
                                programs.forward_event_to_followers(&event);
                                match renderer.is_redirected() {
                                    true => renderer.show_event(&event),
                                    false => unseen.push(event),
                                }
                            }
                            None => is_over = true,
                        },
                        line = programs.next_steering_line() => programs.steer_turn(line),
                    }
                }
                unseen.iter().for_each(|event| renderer.show_event(event));
            }
            line = programs.next_steering_line() => programs.steer_turn(line),
            _ = ticks.tick() => renderer.redraw_waiting_line(),
        }
    }
    programs.reject_late_steering_lines().await;
    renderer.print_pending_output();
    telemetry.flush_and_stop().await;
}
