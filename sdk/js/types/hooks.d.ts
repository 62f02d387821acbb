// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.

/// <reference path="./contract.d.ts" />
import type * as types from "rind:plugin/types@0.1.1";
import type * as payloads from "rind:plugin/payloads@0.1.1";
import type * as outcomes from "rind:plugin/outcomes@0.1.1";
import type * as handles from "rind:plugin/handles@0.1.1";

/** What a hook exports. */
export interface Hook<Payload, Outcome> {
  run(payload: Payload): Outcome;
}

/** One function for each point; what it is given may leave fields out, and nothing changes nothing. */
export declare const hooks: {
  /**
   * A session was opened, fresh or resumed.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  sessionStart(run: (payload: payloads.SessionInfo) => Partial<outcomes.Observed> | void): Hook<payloads.SessionInfo, outcomes.Observed>;
  /**
   * A session is about to be closed.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  sessionEnd(run: (payload: payloads.SessionInfo) => Partial<outcomes.Observed> | void): Hook<payloads.SessionInfo, outcomes.Observed>;
  /**
   * Input has arrived and a turn is about to start.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  turnStart(run: (payload: payloads.TurnInput) => Partial<outcomes.InputOutcome> | void): Hook<payloads.TurnInput, outcomes.InputOutcome>;
  /**
   * The input is about to be assessed.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  preAssess(run: (payload: payloads.TurnInput) => Partial<outcomes.InputOutcome> | void): Hook<payloads.TurnInput, outcomes.InputOutcome>;
  /**
   * The input was assessed. The host's own assessment is a table of words and costs nothing; a plugin that assesses in its
   * place answers with one of its own, all of which counts.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  postAssess(run: (payload: payloads.Assessment) => Partial<outcomes.AssessmentOutcome> | void): Hook<payloads.Assessment, outcomes.AssessmentOutcome>;
  /**
   * The system prompt is being put together; hooks run side by side and contribute parts.
   *
   * Collect: hooks run side by side and contribute; a failing hook is reported and its contribution left out.
   */
  systemPrompt(run: (payload: payloads.PromptContext) => Partial<outcomes.PromptOutcome> | void): Hook<payloads.PromptContext, outcomes.PromptOutcome>;
  /**
   * All parts of the system prompt are there and about to be rendered.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  beforeSystemPrompt(run: (payload: Array<payloads.PromptPart>) => Partial<outcomes.PartsOutcome> | void): Hook<Array<payloads.PromptPart>, outcomes.PartsOutcome>;
  /**
   * The system prompt was rendered; the payload is its text.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  afterSystemPrompt(run: (payload: string) => Partial<outcomes.TextOutcome> | void): Hook<string, outcomes.TextOutcome>;
  /**
   * The messages of one request were put together; edits hold for this request only.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  context(run: (payload: handles.Conversation) => Partial<outcomes.ContextOutcome> | void): Hook<handles.Conversation, outcomes.ContextOutcome>;
  /**
   * The model is about to be asked, for a step or beside the conversation: the payload says what for.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  preReason(run: (payload: payloads.ModelRequest) => Partial<outcomes.RequestOutcome> | void): Hook<payloads.ModelRequest, outcomes.RequestOutcome>;
  /**
   * A request is about to go over the wire.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  beforeProviderRequest(run: (payload: handles.WireRequest) => Partial<outcomes.WireOutcome> | void): Hook<handles.WireRequest, outcomes.WireOutcome>;
  /**
   * The model is writing an answer; the payload is the text that has not been shown yet. Called with the first piece, then
   * at line ends or every 200 ms, and once more with what is left when the answer is whole. A text that is shown in one
   * piece passes here once, with `is-last` set.
   *
   * Mutate: hooks run one after another, each on what the one before it left. What was shown is never taken back, so a
   * failing hook stops the answer unless its manifest says `on_failure = "skip"`.
   */
  outputDelta(run: (payload: payloads.TextDelta) => Partial<outcomes.DeltaOutcome> | void): Hook<payloads.TextDelta, outcomes.DeltaOutcome>;
  /**
   * A provider's answer has ended.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  afterProviderResponse(run: (payload: handles.WireResponse) => Partial<outcomes.Observed> | void): Hook<handles.WireResponse, outcomes.Observed>;
  /**
   * The model has answered; the payload is its message.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  postReason(run: (payload: types.Message) => Partial<outcomes.ReplyOutcome> | void): Hook<types.Message, outcomes.ReplyOutcome>;
  /**
   * A message is finished and kept in the session.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  messageEnd(run: (payload: types.Message) => Partial<outcomes.Observed> | void): Hook<types.Message, outcomes.Observed>;
  /**
   * A tool call is about to be made. Its arguments have been checked; policy comes after.
   *
   * Gate: hooks run one after another and may refuse; a failing hook refuses unless its manifest says `on_failure = "skip"`.
   */
  preTool(run: (payload: payloads.ProposedCall) => Partial<outcomes.CallOutcome> | void): Hook<payloads.ProposedCall, outcomes.CallOutcome>;
  /**
   * A tool call was made, refused or cancelled.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  postTool(run: (payload: handles.FinishedCall) => Partial<outcomes.ResultOutcome> | void): Hook<handles.FinishedCall, outcomes.ResultOutcome>;
  /**
   * Text came in while a turn was running.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  steeringReceived(run: (payload: payloads.TurnInput) => Partial<outcomes.SteeringOutcome> | void): Hook<payloads.TurnInput, outcomes.SteeringOutcome>;
  /**
   * The turn is about to be reflected on. A plugin that reflects in the host's place brings its verdict here, so that the
   * host does not make its own.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  preReflect(run: (payload: payloads.Reflection) => Partial<outcomes.ReflectionOutcome> | void): Hook<payloads.Reflection, outcomes.ReflectionOutcome>;
  /**
   * Reflection has decided whether the turn is done.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  postReflect(run: (payload: payloads.ReflectVerdict) => Partial<outcomes.VerdictOutcome> | void): Hook<payloads.ReflectVerdict, outcomes.VerdictOutcome>;
  /**
   * The output is about to be shown; the payload is its text.
   *
   * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
   * unless its manifest says `on_failure = "block"`.
   */
  preOutput(run: (payload: string) => Partial<outcomes.OutputOutcome> | void): Hook<string, outcomes.OutputOutcome>;
  /**
   * The output was shown; the payload is its text.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  postOutput(run: (payload: string) => Partial<outcomes.Observed> | void): Hook<string, outcomes.Observed>;
  /**
   * A turn has ended, however it ended.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  turnEnd(run: (payload: payloads.TurnSummary) => Partial<outcomes.Observed> | void): Hook<payloads.TurnSummary, outcomes.Observed>;
  /**
   * Older messages are about to be replaced by a summary.
   *
   * Gate: hooks run one after another and may refuse; a failing hook refuses unless its manifest says `on_failure = "skip"`.
   */
  beforeCompact(run: (payload: handles.Slice) => Partial<outcomes.SliceOutcome> | void): Hook<handles.Slice, outcomes.SliceOutcome>;
  /**
   * Older messages were replaced by a summary.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  afterCompact(run: (payload: handles.Slice) => Partial<outcomes.Observed> | void): Hook<handles.Slice, outcomes.Observed>;
  /**
   * A finished turn is about to be moved into a holder.
   *
   * Gate: hooks run one after another and may refuse; a failing hook refuses unless its manifest says `on_failure = "skip"`.
   */
  beforeArchive(run: (payload: handles.Slice) => Partial<outcomes.SliceOutcome> | void): Hook<handles.Slice, outcomes.SliceOutcome>;
  /**
   * A finished turn was moved into a holder.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  afterArchive(run: (payload: handles.Slice) => Partial<outcomes.Observed> | void): Hook<handles.Slice, outcomes.Observed>;
  /**
   * A subagent is about to run.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  subagentStart(run: (payload: payloads.SubagentInfo) => Partial<outcomes.Observed> | void): Hook<payloads.SubagentInfo, outcomes.Observed>;
  /**
   * A subagent has ended.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  subagentEnd(run: (payload: payloads.SubagentInfo) => Partial<outcomes.Observed> | void): Hook<payloads.SubagentInfo, outcomes.Observed>;
  /**
   * A skill became active: calls are kept to the tools that it leaves.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  skillActivated(run: (payload: payloads.SkillInfo) => Partial<outcomes.Observed> | void): Hook<payloads.SkillInfo, outcomes.Observed>;
  /**
   * A skill ended, and with it what it kept calls to.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  skillEnded(run: (payload: payloads.SkillInfo) => Partial<outcomes.Observed> | void): Hook<payloads.SkillInfo, outcomes.Observed>;
  /**
   * A failure occurred.
   *
   * Observe: nothing can be changed; a failing hook is reported and skipped.
   */
  error(run: (payload: payloads.Failure) => Partial<outcomes.Observed> | void): Hook<payloads.Failure, outcomes.Observed>;
};

// Further exports: `tools`, `implement`, `loop`, `agentLoop`, `commands`; their functions are in contract.d.ts.
