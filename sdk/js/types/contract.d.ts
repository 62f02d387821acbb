// Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.

/**
 * A finished turn was moved into a holder.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called each time that a turn was archived.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/after-archive@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Slice } from "rind:plugin/handles@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Slice): Observed;
}

/**
 * Older messages were replaced by a summary.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called each time that messages were replaced.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/after-compact@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Slice } from "rind:plugin/handles@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Slice): Observed;
}

/**
 * A provider's answer has ended.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each request that was answered.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/after-provider-response@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { WireResponse } from "rind:plugin/handles@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: WireResponse): Observed;
}

/**
 * The system prompt was rendered; the payload is its text.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each turn, behind `before-system-prompt`.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/after-system-prompt@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { TextOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: string): TextOutcome;
}

/**
 * The order of the agent's turns: a loop that takes the place of the built-in one.
 *
 * The operator names the plugin as `loop` under `[agent]` in the settings. Then `run` is called for each turn of the main agent and
 * makes it of the primitives of `agent-turn`. Hooks, policy, approval, limits and the journal are inside of the primitives, so that
 * no order skips one of them. Subagents keep the built-in order. Two kinds of input never reach `run`: a skill with `context: fork`,
 * whose work a subagent does, and `/compact`, which asks for no answer.
 *
 * Lifecycle: `run` is called once for each turn, in an instance of its own, and returns after `agent-turn.finish` said that the turn
 * is over. A loop that fails, traps, asks for primitives in an order that makes no sense, or returns too early ends the turn with the
 * work that was done: calls get results, the output says which loop failed and why, and the built-in order does not take over. When
 * the turn is interrupted, the call is dropped.
 * Deadline: 60 s of computing a turn, which `[limits] timeout` sets to at most 600 s. Time in primitives does not count.
 * Access: needs the side effect `external` and `[external] agent_loop = true`, which the operator is asked about.
 */
declare module "rind:plugin/agent-loop@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** Runs a turn. */
  export function run(): void;
}

/**
 * Primitives of the turn that a loop runs.
 *
 * The built-in order is made of the same ones: `take-input`, `build-prompt`, then `request` and `run-calls` until an answer has no
 * calls, and `finish`. A refusal by a hook, a rule or a limit of the operator ends the turn or becomes the result of a call, as in
 * every turn. A primitive that comes in an order that makes no sense ends the turn, and so does the 65th primitive after the last
 * request. A returned error ends nothing, and the conversation is the same as before; a failed request aside counts as a step and
 * costs what its provider charges.
 *
 * Lifecycle: called from `run` of `agent-loop`. A call from a hook, a tool, a command or another loop is `denied`.
 * Deadline: stands still while a primitive is carried out.
 * Access: granted to plugins with the side effect `external` and `[external] agent_loop = true`.
 */
declare module "rind:plugin/agent-turn@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { ToolCall } from "rind:plugin/types@0.1.1";
  import type { Usage } from "rind:plugin/types@0.1.1";
  import type { Decision } from "rind:plugin/payloads@0.1.1";
  /** Input of the turn, or what the person said since. */
  export interface TakenInput {
    /**
     * Text, as hooks left it. Empty when a hook dropped what the person said later and added a message of its own, which is in the
     * conversation.
     */
    text: string;
    /** Assessment of the first input of the turn. It stands for what the person says later and for follow-ups. */
    decision: Decision;
  }
  /** A request to the model. */
  export interface RequestOrder {
    /**
     * Model to ask; none takes the model of the turn. Others than the session's must be named in `loop_models` under `[agent]` in the
     * operator's settings; one that is not is `denied`.
     */
    model?: string;
    /**
     * Preset of subagents that selects the tools of this request, such as `investigate` for those that only read, or `minimal` for
     * none. Calls of other tools are refused. Without one, the turn's tools are there.
     */
    preset?: string;
    /** Message for this request only, at most 256 KiB. It reaches the model as a user message that names the plugin. */
    note?: string;
    /** Whether the answer stays outside of the conversation: nobody is shown it, and its calls do not run unless it is accepted. */
    aside: boolean;
  }
  /** An answer of the model, as hooks left it. */
  export interface ModelAnswer {
    /** Number of the answer in the turn. */
    id: number;
    /** Model that was asked. */
    model: string;
    /** Text of the answer. */
    text: string;
    /** Calls of the answer. */
    calls: Array<ToolCall>;
    /** Whether the model was cut off. No call of such an answer runs. */
    isCut: boolean;
    /** Tokens of the request. */
    usage: Usage;
  }
  /** A call that has a result. The result is in the conversation. */
  export interface CallReport {
    /** Name of the tool. */
    name: string;
    /** Whether it failed, was refused or was skipped. */
    isError: boolean;
  }
  /** Outcome of `finish`. */
  export type TurnFinish =
    /** The answer went out and the turn is over: return. */
    | { tag: "done" }
    /**
     * Another request is needed, for this reason: reflection sent the answer back, it was cut or empty, does not match the schema of
     * the turn, has had calls, or the person said something. The message that tells the model is in the conversation.
     */
    | { tag: "again", val: string }
    /** The answer went out, and the person follows up with this, for which the turn goes on. */
    | { tag: "follow-up", val: TakenInput };
  /**
   * Whether the turn goes on with one that was interrupted. What was done is in the conversation then, and so is the input if the
   * interrupted turn had taken it; `take-input` takes it in both cases. If the model had answered already, the first answer is that
   * one, unless an injection or what the person says comes before it.
   */
  export function isResumed(): boolean;
  /**
   * Takes the input of the turn, which hooks see and may refuse. Called again, returns what the person said since, or none; it is in
   * the conversation then, or a message that a hook added in its place. A `request` that is not aside, `reflect` and `finish` take
   * it as well.
   */
  export function takeInput(): TakenInput | undefined;
  /** Makes the system prompt of the turn, once. */
  export function buildPrompt(): void;
  /**
   * Asks the model, which is one step of the turn. The answer becomes a part of the conversation, unless it is wanted aside. At the
   * limit of steps or of cost the turn ends. `failed` when a model asked aside gave no answer, or when the conversation is longer than
   * the window of another model than the turn's.
   */
  export function request(order: RequestOrder): ModelAnswer;
  /**
   * Makes an answer that was asked for aside a part of the conversation. Answers aside are kept until a request that is not aside, an
   * injection, a reason of `reflect` or `finish` for another request, or something that the person says. At most 16 are kept.
   */
  export function accept(id: number): void;
  /** Runs the calls of the last answer under hooks, rules and approval, and returns how each ended. */
  export function runCalls(): Array<CallReport>;
  /** Adds a message to the conversation, at most 256 KiB. It reaches the model as a user message that names the plugin. */
  export function inject(text: string): void;
  /**
   * Reflects on the last answer without giving it out: the reason why another request is needed, or none. The message that tells the
   * model is in the conversation. `finish` does it otherwise.
   */
  export function reflect(): string | undefined;
  /** Gives the last answer out, after reflection and the hooks of the output. */
  export function finish(): TurnFinish;
}

/**
 * Running subagents.
 *
 * A subagent has no more tools than its parent, cannot ask for approval, and fires the same hooks but those of the plugin
 * that runs it, and `session-start` and `session-end`. Its tokens count in the turn, and it ends with the turn. A plugin
 * has 4 in a turn, and they are nested as deep as the operator lets them, by default two deep.
 *
 * Lifecycle: called in a turn, from hooks and tools, and from `run` of `loop`.
 * Deadline: bounded by the deadline of the call of the plugin that makes it.
 * Access: granted to plugins with the side effect `external` and `[external] agents = true`.
 */
declare module "rind:plugin/agents@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** One task for a subagent. */
  export interface Task {
    /** Task of the subagent. */
    prompt: string;
    /** Tools it may use; names that the parent does not have are refused. */
    tools: Array<string>;
    /** Most steps it may take; no more than the operator lets a turn take. */
    maxSteps: number;
  }
  /** Work for a subagent that runs beside the plugin. */
  export interface Order {
    /** Task of the subagent. */
    prompt: string;
    /**
     * Name of a preset, which selects its tools and its instructions. Without one, `tools` names its tools, or it gets those that
     * only read.
     */
    preset?: string;
    /** Tools it may use; with a preset they must be among those of the preset. */
    tools?: Array<string>;
    /** Most steps it may take; no more than the operator lets a subagent take. */
    maxSteps?: number;
  }
  /** State of a subagent and its answer. */
  export interface Report {
    /** Id of the subagent, with which it can be continued. */
    id: string;
    /** State: `running`, `answered`, `blocked` (a call needed an approval), `limited`, `stopped` or `failed`. Further words may come. */
    state: string;
    /** Answer, or the reason why there is none. Empty while it runs. */
    answer: string;
    /** Number of its steps. 0 while it runs. */
    steps: number;
    /** Cost in US dollars of the tokens with a known price. */
    costUsd: number;
  }
  /** A kind of subagent. */
  export interface Preset {
    /** Name of the preset. */
    name: string;
    /** Purpose of the preset, in one line. */
    description: string;
  }
  /** Runs a subagent to its end and returns its answer. */
  export function run(task: Task): string;
  /** Returns the presets of this session. */
  export function presets(): Array<Preset>;
  /** Starts a subagent and returns its id at once. It ends with the turn at the latest, and counts like one that is run. */
  export function start(order: Order): string;
  /**
   * Gives a subagent of this plugin that has ended a further message, and returns at once. It knows everything that it did before,
   * also after the session was resumed, and counts like one that is run.
   */
  export function resume(id: string, message: string): void;
  /** Waits until these subagents of the plugin have ended, at most as long as `timeout-ms` says, and returns their states. */
  export function wait(ids: Array<string>, timeoutMs: number): Array<Report>;
  /** Stops a subagent of this plugin. It can be continued. */
  export function stop(id: string): Report;
}

/**
 * Questions to the person at the terminal.
 *
 * The person sees which plugin asks, every text of it is escaped and on marked lines, and nothing else is asked meanwhile. A plugin
 * has 5 questions in a turn or command. A question must never ask for a secret: what is typed is shown, and an answer that looks like
 * one is not handed over. Where nobody can be asked (no terminal, a subagent, the end of input) the answer is the default that the
 * plugin gives: the one that is right when nobody looks.
 *
 * Lifecycle: called in a turn or a command, from hooks and tools.
 * Deadline: stands still while the person thinks; interrupting the turn ends the wait, and the call is told that it failed.
 * Access: every plugin; `rind plugin inspect` shows that a plugin asks, and each question with its answer is an event.
 */
declare module "rind:plugin/ask@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** Asks for a yes or a no. `text` is at most 1,000 bytes. */
  export function confirm(text: string, default_: boolean): boolean;
  /**
   * Asks to choose one of 2 to 9 options of at most 100 bytes each, and returns its place in the list, from 0. `default` is such a
   * place.
   */
  export function choose(text: string, options: Array<string>, default_: number): number;
  /** Asks for one line of text, of at most 1,000 bytes. An empty line is the default. */
  export function text(text: string, default_: string): string;
}

/**
 * A finished turn is about to be moved into a holder.
 *
 * Gate: hooks run one after another and may refuse; a failing hook refuses unless its manifest says `on_failure = "skip"`.
 *
 * Lifecycle: called each time that a finished turn is due to be archived, and again when another hook brought a summary.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: every plugin; to bring a summary needs the side effect `session`.
 */
declare module "rind:plugin/before-archive@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Slice } from "rind:plugin/handles@0.1.1";
  import type { SliceOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Slice): SliceOutcome;
}

/**
 * Older messages are about to be replaced by a summary.
 *
 * Gate: hooks run one after another and may refuse; a failing hook refuses unless its manifest says `on_failure = "skip"`.
 *
 * Lifecycle: called each time that a conversation has become too long, and again when another hook brought a summary.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: every plugin; to bring a summary needs the side effect `session`.
 */
declare module "rind:plugin/before-compact@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Slice } from "rind:plugin/handles@0.1.1";
  import type { SliceOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Slice): SliceOutcome;
}

/**
 * A request is about to go over the wire.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each request to the model, before it is sent.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/before-provider-request@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { WireRequest } from "rind:plugin/handles@0.1.1";
  import type { WireOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: WireRequest): WireOutcome;
}

/**
 * All parts of the system prompt are there and about to be rendered.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each turn, behind `system-prompt`.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/before-system-prompt@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { PromptPart } from "rind:plugin/payloads@0.1.1";
  import type { PartsOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Array<PromptPart>): PartsOutcome;
}

/**
 * Bytes of content that is not text, such as images. Messages and results refer to them, and a hook that does not ask for
 * them does not pay for them.
 *
 * Readable are the blobs in the payload of the call that runs, in the answer of a tool that this call got from
 * `tools-host`, and with the side effect `session` every blob of the session. Anything else is `denied`.
 *
 * Lifecycle: called from hooks and tools.
 * Deadline: bounded by the deadline of the call of the plugin that makes it.
 * Access: every plugin.
 */
declare module "rind:plugin/blobs@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /**
   * Reads the bytes of the blob with this id from `offset` on, at most `length` of them and at most 8 MiB; less at its
   * end. Bytes that are missing or were damaged are `not-found`.
   */
  export function read(id: string, offset: number, length: number): Uint8Array;
}

/**
 * Caller of the hook, tool, command or implementation that runs.
 *
 * Hooks fire on every path: `agent` and `depth` tell a subagent's step from the main agent's. While a plugin is
 * loaded nobody calls it: texts are empty and numbers 0 then.
 *
 * Lifecycle: called at any time; each answer is the same from the start of the call of the plugin to its end.
 * Deadline: none: the answer is there.
 * Access: every plugin.
 */
declare module "rind:plugin/caller@0.1.1" {
  import type { Usage as TurnUsage } from "rind:plugin/types@0.1.1";
  /** Session id. */
  export function session(): string;
  /** Number of the turn within the session, from 1; 0 outside a turn. */
  export function turn(): number;
  /** Number of the step within the turn, from 1; 0 outside a step. */
  export function step(): number;
  /** Name of the agent: `main`, or the id of a subagent. */
  export function agent(): string;
  /** 0 for the main agent, one more for each level of subagent. */
  export function depth(): number;
  /** Absolute path of the folder that the agent works in. To read files there takes a grant. */
  export function workspace(): string;
  /** Name of the agent's model. A request may go to another one: see `pre-reason`. */
  export function model(): string;
  /** Id of the skill that is active; of several the one that became so last. None while none is. */
  export function skill(): string | undefined;
  /** Tokens that this turn has used so far, by the model, by plugins and by subagents. */
  export function usage(): TurnUsage;
  /** Sum of input and output tokens. */
  export function tokensUsed(): number;
  /** Cost of this turn so far in US dollars, as far as prices are known. */
  export function costUsd(): number;
  /** Tokens of this turn so far whose model has no known price. With any, `cost-usd` is the least that it was. */
  export function unpricedTokens(): number;
  /** Tool calls made so far in this turn. */
  export function toolCalls(): number;
}

/**
 * Slash commands that a plugin offers to the person at the terminal. The model cannot call them.
 *
 * Lifecycle: `list` is called once when the plugin is loaded, before it was granted anything; `run` between two turns, when the
 * person calls a command. What it asks, calls and runs passes hooks, policy and approval as in a turn.
 * Deadline: 5 s for `list`; 60 s for `run`, which `[limits] timeout` sets to at most 600 s.
 * Access: every plugin may export it; a command runs with the plugin's permissions, which `/help` shows.
 */
declare module "rind:plugin/commands@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** One command. */
  export interface CommandSpec {
    /** Name without the slash, `[a-z0-9-]`, at most 64 bytes. A plugin has at most 32 commands. */
    name: string;
    /** Description, one line, at most 200 bytes. */
    description: string;
    /**
     * JSON Schema of its arguments, JSON text, `"type": "object"`, at most 65,536 bytes; none for a command that takes the
     * text behind its name as it is.
     */
    arguments?: string;
  }
  /** Outcome of a command. */
  export type CommandOutcome =
    /** Show this text to the person; it is cut at 65,536 bytes. */
    | { tag: "text", val: string }
    /** Start a turn with this input, at most 1 MiB. */
    | { tag: "prompt", val: string }
    /** No output: the command did its work. */
    | { tag: "nothing" };
  /** Lists the commands. */
  export function list(): Array<CommandSpec>;
  /**
   * Runs a command. `arguments` is JSON text that fits the command's schema; for a command without one, the text behind
   * the name.
   */
  export function run(name: string, arguments_: string): CommandOutcome;
}

/**
 * The operator's settings for this plugin.
 *
 * The manifest's `[config]` is a JSON Schema; values that do not fit it keep the plugin from loading.
 *
 * Lifecycle: called at any time, also while the plugin is loaded.
 * Deadline: none: the answer is there.
 * Access: every plugin.
 */
declare module "rind:plugin/config@0.1.1" {
  /** All settings as JSON text, an object that fits `[config]`, with its defaults filled in. */
  export function all(): string;
  /** One setting as JSON text, if it is set or has a default. It fits what `[config]` says of the key. */
  export function get(key: string): string | undefined;
}

/**
 * The messages of one request were put together; edits hold for this request only.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each step, before `pre-reason`.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/context@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Conversation } from "rind:plugin/handles@0.1.1";
  import type { ContextOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Conversation): ContextOutcome;
}

/**
 * A failure occurred.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each failure, of hooks, tools and the provider; not for failures of hooks of this point.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/error@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Failure } from "rind:plugin/payloads@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Failure): Observed;
}

/**
 * Files in the folders that the plugin was granted.
 *
 * Paths start with `workspace/` or `data/`, use `/`, and cannot leave the granted folder: `..`, absolute paths and links
 * that lead out are refused. Pipes, devices and sockets are not opened. Of two granted folders one in the other the inner
 * one decides. `workspace/.rind` is never written. What is refused or fails leaves a record that the operator sees.
 *
 * Lifecycle: called at any time but while the plugin is loaded.
 * Deadline: bounded by the deadline of the call of the plugin that makes it.
 * Access: granted to plugins with the side effect `filesystem`, folder by folder.
 */
declare module "rind:plugin/files@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** Kind of an entry. */
  export type Kind = "file" | "folder" | "other";
  /** One entry of a folder. */
  export interface Entry {
    /** Name of the entry. */
    name: string;
    /** Kind of the entry. */
    kind: Kind;
    /** Size in bytes; 0 for a folder. */
    size: number;
  }
  /** Reads a file from `offset`, at most `length` bytes; less at its end. A `length` over 16 MiB is a `limit` error. */
  export function read(path: string, offset: number, length: number): Uint8Array;
  /**
   * Writes a whole file of at most 16 MiB in one step, making it if needed. Folders must be there. A full `data` folder is
   * a `limit` error.
   */
  export function write(path: string, content: Uint8Array): void;
  /**
   * Adds at most 16 MiB to the end of a file, making it if needed. Folders must be there. Others who add at the same time
   * lose nothing; when the disk is full or the host is killed, a part may be there. A full `data` folder is a `limit`
   * error.
   */
  export function append(path: string, content: Uint8Array): void;
  /** Lists a folder, sorted by name. More than 10,000 entries are a `limit` error. */
  export function list(path: string): Array<Entry>;
  /** Makes a folder and those above it. */
  export function createFolder(path: string): void;
  /** Removes a file, a link or an empty folder. */
  export function remove(path: string): void;
}

/**
 * Payloads that can be large, read in parts: a hook pays for the parts that it asks for.
 *
 * A handle is lent for one call of the hook. It shows the payload as it was when the call began. One that the guest still
 * holds when its function returns is a trap, and so is the use of one that it does not hold.
 *
 * Positions in a text are counted in bytes of UTF-8. A read returns whole characters: it begins at the start of the
 * character at `offset`, ends behind the character that holds the last of `length` bytes, and is empty at the end of the
 * text. A read of more than 1 MiB is cut to that, so ask on from where the answer ended.
 *
 * Lifecycle: called while the hook runs that was lent the handle.
 * Deadline: none: the answer is there, and the deadline of the hook bounds how often it can be asked.
 * Access: every plugin.
 */
declare module "rind:plugin/handles@0.1.1" {
  import type { Message } from "rind:plugin/types@0.1.1";
  import type { Part } from "rind:plugin/types@0.1.1";
  import type { ToolCall } from "rind:plugin/types@0.1.1";
  import type { Usage } from "rind:plugin/types@0.1.1";
  import type { Purpose } from "rind:plugin/payloads@0.1.1";
  /** Messages of one request, oldest first. */
  export class Conversation {
    private constructor();
    /** Number of messages. */
    len(): number;
    /** The message at `index`, from 0; none behind the last one. */
    message(index: number): Message | undefined;
    /**
     * Returns at most `count` messages from `start` on. It may be fewer: at most 100, and no more than 8 MiB of text unless the
     * first alone is larger. None behind the last one.
     */
    messages(start: number, count: number): Array<Message>;
  }
  /** Part of a conversation that is about to be compacted or archived, or just was. */
  export class Slice {
    private constructor();
    /** Reason: `token-threshold`, `max-steps`, `tool-calls`, or `asked`. */
    reason(): string;
    /** Text that takes the place of the messages; empty before it was made. */
    summary(): string;
    /** Number of messages. */
    len(): number;
    /** The message at `index`, from 0; none behind the last one. */
    message(index: number): Message | undefined;
    /** Returns at most `count` messages from `start` on, with the bounds of `conversation`. */
    messages(start: number, count: number): Array<Message>;
  }
  /** A request as it will go over the wire. */
  export class WireRequest {
    private constructor();
    /** Name of the provider. */
    provider(): string;
    /** Size of the body in bytes. */
    size(): number;
    /** Part of the body, JSON text in the provider's own format. */
    body(offset: number, length: number): string;
  }
  /** A provider's answer after its stream has ended. */
  export class WireResponse {
    private constructor();
    /** Purpose of the request. */
    purpose(): Purpose;
    /** Name of the provider. */
    provider(): string;
    /** HTTP status; 0 for a provider that is not reached over HTTP. */
    status(): number;
    /** Milliseconds from sending the request to the end of the stream. */
    latencyMs(): number;
    /** Name of the model that answered, as the provider says it, or that was asked. */
    model(): string;
    /** Tokens of the request. */
    usage(): Usage;
    /** Cost in US dollars; none when no price is known. */
    costUsd(): number | undefined;
    /** Size of the body in bytes, at most 262,144: what is longer is cut. */
    size(): number;
    /** Part of the body, as it came over the wire. */
    body(offset: number, length: number): string;
  }
  /** A tool call that was made, or refused. */
  export class FinishedCall {
    private constructor();
    /** The call with its final arguments. */
    call(): ToolCall;
    /** Name of the plugin that the tool is from; none for a built-in tool. */
    plugin(): string | undefined;
    /** Whether it failed, was refused or was cancelled. */
    isError(): boolean;
    /** Whether the tool did not run: the call was refused, skipped, or names no tool. */
    isRefused(): boolean;
    /** Milliseconds that the tool ran; 0 when it was refused. */
    durationMs(): number;
    /** Number of parts of the result. */
    len(): number;
    /** The part at `index`, from 0; none behind the last one. */
    part(index: number): Part | undefined;
    /** Size of the result as one text, in bytes. */
    size(): number;
    /** Some of the result as one text: JSON as it is written, a blob as its type and size. */
    content(offset: number, length: number): string;
  }
}

/**
 * HTTP requests to the hosts that the plugin was granted.
 *
 * A host is granted by scheme, name and port. Its name is looked up once, and every address that it has must be public, or
 * private where the host is listed as such. Redirects, at most five, are followed by the host and checked like requests of
 * their own; `authorization`, `cookie` and credentials do not go along to another host, and https does not lead to http.
 * Credentials of the manifest are put in last; where they come back in an answer, `[masked: NAME]` stands in their place.
 *
 * A plugin has 100 requests in a session unless its manifest asks for others, redirects counted, and eight at once; a
 * request has 30 s from the first look-up to the last byte. Every request leaves an access record, whatever came of it.
 * The same rules hold for requests through `wasi:http/outgoing-handler`.
 *
 * Lifecycle: called at any time but while the plugin is loaded.
 * Deadline: bounded by the deadline of the call of the plugin that makes it, and 30 s.
 * Access: granted to plugins with the side effect `network`, host by host.
 */
declare module "rind:plugin/http@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** A header. */
  export interface Header {
    /** Name of the header. */
    name: string;
    /** Value of the header. */
    value: string;
  }
  /** A request. */
  export interface Request {
    /** `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` or `OPTIONS`. */
    method: string;
    /** The whole URL, `https` unless the grant says otherwise, without user and password, at most 8 KiB. */
    url: string;
    /**
     * Headers, at most 100, of 16 KiB each and 64 KiB together. Refused are those that the host sets itself: `host`,
     * `content-length`, `accept-encoding`, those of the connection, `proxy-…`, `sec-…`, and those of a credential for the
     * host.
     */
    headers: Array<Header>;
    /** The body, at most 10 MiB; empty for none. */
    body: Uint8Array;
  }
  /** A response. */
  export interface Response {
    /** Status code. */
    status: number;
    /** Headers, without those of the connection. */
    headers: Array<Header>;
    /** The body after decoding, at most 10 MiB. */
    body: Uint8Array;
  }
  /**
   * Sends a request and waits for the whole response.
   *
   * The error is `invalid-input` for what is no request, `denied` for what the plugin may not do, `limit` for what is too
   * much, `failed` for what went wrong on the way. A status of 400 or 500 is no error.
   */
  export function send(request: Request): Response;
}

/**
 * A plugin's implementation of extension points that other plugins define.
 *
 * The manifest names the points, `[implements]`. The kind of the point is its owner's to choose, and says what an
 * answer may be: at a gate all of `verdict`, at a mutate point all but `ask`, at a collect point `pass` and `value`; at an
 * observe point the answer is ignored, and a refusal is a failure.
 *
 * Lifecycle: called each time that somebody calls a point that the manifest lists.
 * Deadline: that of a hook: 5 s, which manifest and operator lower.
 * Access: every plugin may export it; `[implements]` lists the points.
 */
declare module "rind:plugin/implement@0.1.1" {
  import type { Effect } from "rind:plugin/types@0.1.1";
  import type { Error } from "rind:plugin/types@0.1.1";
  /** Verdict of an implementation on a payload. */
  export type Verdict =
    /** No objection, no change. */
    | { tag: "pass" }
    /**
     * A value, JSON text of at most 1 MiB that fits the `result` schema of the point: in place of the payload at gate and
     * mutate points, where it must fit the `payload` schema as well; one contribution at collect points.
     */
    | { tag: "value", val: string }
    /** Ask the user first, for this reason. The owner of the point asks, or refuses. */
    | { tag: "ask", val: string }
    /** Refuse, for this reason. Implementations behind this one are not called. */
    | { tag: "block", val: string };
  /** The answer of an implementation. */
  export interface Outcome {
    /** The verdict; `block` beats `ask` beats `pass` over all implementations. */
    verdict: Verdict;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /**
   * Called when somebody calls `point` (written `owner.NAME`). `payload` is JSON text of at most 1 MiB that fits the
   * `payload` schema of the point.
   */
  export function run(point: string, payload: string): Outcome;
}

/**
 * The host's log. Lines are capped, escaped, counted, and marked with the plugin's name.
 *
 * Lifecycle: called at any time.
 * Deadline: none: the line is taken.
 * Access: every plugin.
 */
declare module "rind:plugin/log@0.1.1" {
  import type { Level } from "rind:plugin/types@0.1.1";
  /** Writes one line. A plugin that writes too much is cut off for the rest of the session, with a notice. */
  export function write(level: Level, text: string): void;
}

/**
 * A plugin with a life of its own: a heartbeat, a clock, a listener.
 *
 * `rind serve` runs the loops of all plugins side by side, each in a session of its own: `state` is kept from run to run.
 *
 * Lifecycle: `run` is called while the host serves, and again after the pause that it asks for, until it is done. What it asks,
 * calls and runs passes hooks, policy and approval as in a turn, and nobody is there to be asked. The runs of one minute may use
 * together what one turn may; limits of a session, such as requests and lines of log, are counted anew every hour. A run may wait
 * with `waiting` and run turns with `turns`.
 * Deadline: 60 s a run, which `[limits] timeout` sets to at most 600 s. It holds for computing: time in `waiting` and `turns` does
 * not count.
 * Access: every plugin may export it; a loop runs with the plugin's permissions.
 */
declare module "rind:plugin/loop@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** Another run of the loop. */
  export interface NextRun {
    /** Milliseconds to wait before it, at least 100. The instance may be thrown away meanwhile. */
    afterMs: number;
    /** Reason in a few words, for the operator; it is cut at 200 bytes. */
    reason: string;
  }
  /** Action after a run of a loop. */
  export type LoopOutcome =
    /** There is nothing left to do. */
    | { tag: "done" }
    /** Run the loop again. */
    | { tag: "again", val: NextRun };
  /**
   * Runs once: until there is nothing to do at present. A run that ends with an error is made again after a pause, which grows from
   * 1 s to 5 min as long as runs fail.
   */
  export function run(): LoopOutcome;
}

/**
 * A message is finished and kept in the session.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each message, when it is in the session.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/message-end@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Message } from "rind:plugin/types@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Message): Observed;
}

/**
 * Questions to a model.
 *
 * Calls count towards the turn's usage and limits; a plugin has 20 in a turn, and one more is a `limit`. Of hooks, those
 * on `before-provider-request` and `after-provider-response` fire, but not those of the asking plugin. A call is bounded
 * by the deadline of the hook or tool that makes it; `[hooks.X] timeout` may be up to 60 s for a plugin that may ask.
 *
 * Lifecycle: called in a turn, from hooks and tools, and from `run` of `loop`.
 * Deadline: bounded by the deadline of the call of the plugin that makes it.
 * Access: granted to plugins with the side effect `external` and `[external] model = true`.
 */
declare module "rind:plugin/model@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Usage } from "rind:plugin/types@0.1.1";
  /** One question without tools. */
  export interface Question {
    /** System prompt. */
    system: string;
    /** Prompt, at most 1 MiB. */
    prompt: string;
    /** Model to ask; none takes the session's. */
    model?: string;
    /** Most tokens it may write; taken as 1 to 32,000. */
    maxTokens: number;
  }
  /** Reply of the model. */
  export interface Reply {
    /** Text of the reply. */
    text: string;
    /** Tokens used. */
    usage: Usage;
  }
  /** Asks a question, and waits for the whole answer. */
  export function ask(question: Question): Reply;
}

/**
 * Outcomes of hooks: one record for each set of rights. What a hook must not do cannot be written here; in particular no
 * outcome can allow what policy denies.
 *
 * Every text is scanned for secrets on its way out, and what is found is masked and put on record. The `text` of an
 * `input-outcome`, `text-outcome`, `output-outcome` or `delta-outcome` changes nothing and is not scanned when it is the one
 * that the hook was shown, letter for letter.
 *
 * A field left at `none`, `keep`, `pass` or an empty list changes nothing, and `effects` are extra requests to the host.
 * A field that can also be reset to the default has a type with three cases.
 *
 * Lifecycle: data only, nothing is called.
 * Deadline: none.
 * Access: every plugin.
 */
declare module "rind:plugin/outcomes@0.1.1" {
  import type { Effect } from "rind:plugin/types@0.1.1";
  import type { Injection } from "rind:plugin/types@0.1.1";
  import type { Part } from "rind:plugin/types@0.1.1";
  import type { Assessment } from "rind:plugin/payloads@0.1.1";
  import type { PromptPart } from "rind:plugin/payloads@0.1.1";
  /** Outcome of a hook that only observes. */
  export interface Observed {
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook on incoming text. */
  export interface InputOutcome {
    /** Text to put in place of the input. */
    text?: string;
    /** Messages to add. */
    inject: Array<Injection>;
    /** Refuse the turn, with the reason. */
    block?: string;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook on the assessment. */
  export interface AssessmentOutcome {
    /** Replacement for the assessment; its `input` is ignored. */
    assessment?: Assessment;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook that contributes to the system prompt. */
  export interface PromptOutcome {
    /** Parts to add, each with a key of its own. */
    parts: Array<PromptPart>;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook that edits the parts of the system prompt. */
  export interface PartsOutcome {
    /**
     * Parts to add, or to put in place of those with the same key; a key without a plugin's name is the host's part or
     * else the hook's own.
     */
    put: Array<PromptPart>;
    /** Keys of parts to take out, meant in the same way. */
    remove: Array<string>;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook that may change one text and nothing else. */
  export interface TextOutcome {
    /** Text to put in place. */
    text?: string;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** A message and its new text. */
  export interface Replacement {
    /** Id of the message. */
    id: string;
    /** The new text. */
    text: string;
  }
  /** One edit of the messages of a request. */
  export type MessageEdit =
    /** Leave out the message with this id. A tool call goes together with its result. */
    | { tag: "drop", val: string }
    /** Put a text in place of a message's text or of a tool result's content. */
    | { tag: "replace", val: Replacement }
    /** Add a message at the end. */
    | { tag: "append", val: string };
  /** Outcome of a hook on the messages of one request. */
  export interface ContextOutcome {
    /** Edits in order; they hold for this request only. */
    edits: Array<MessageEdit>;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** A change of a number with a fraction that may have no value. */
  export type FloatChange =
    /** Leave it as it is. */
    | { tag: "keep" }
    /** Take it out: the provider decides. */
    | { tag: "unset" }
    /** Put this in its place. */
    | { tag: "set", val: number };
  /** A change of a count that may have no value. */
  export type CountChange =
    /** Leave it as it is. */
    | { tag: "keep" }
    /** Take it out: the provider decides. */
    | { tag: "unset" }
    /** Put this in its place. */
    | { tag: "set", val: number };
  /** A change of a list of names. */
  export type NamesChange =
    /** Leave it as it is. */
    | { tag: "keep" }
    /** Take all of them out. */
    | { tag: "unset" }
    /** Leave these and no others. */
    | { tag: "set", val: Array<string> };
  /** Outcome of a hook on a request to the model. */
  export interface RequestOutcome {
    /** Model to use. */
    model?: string;
    /** Sampling temperature, from 0 to 2. */
    temperature: FloatChange;
    /** Most tokens the model may write, at least 1. */
    maxTokens: CountChange;
    /** Tools to leave active; names that are not active already are refused. */
    tools: NamesChange;
    /** Messages to add. */
    inject: Array<Injection>;
    /** Refuse to ask the model, with the reason; the turn ends. */
    block?: string;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook on a request as it goes over the wire. */
  export interface WireOutcome {
    /**
     * Body to send instead: JSON text, an object in the provider's own format, at most 8 MiB. It may leave things out and
     * say them differently; tools, and keys other than parameters of sampling, that the request did not have are refused.
     */
    body?: string;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook on the model's answer. */
  export interface ReplyOutcome {
    /** Text to put in place of the message's text. */
    text?: string;
    /** Messages to add; a message asks the model for another step. */
    inject: Array<Injection>;
    /** Refuse the answer, with the reason; the turn ends. */
    block?: string;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Verdict of a hook on a tool call. */
  export type CallVerdict =
    /** No objection. */
    | { tag: "pass" }
    /** Run it with these arguments: JSON text of at most 1 MiB that fits the `parameters` schema of the tool. */
    | { tag: "change", val: string }
    /** Ask the user first, for this reason. */
    | { tag: "ask", val: string }
    /** Refuse it, for this reason. */
    | { tag: "block", val: string };
  /** Outcome of a hook on a tool call. */
  export interface CallOutcome {
    /**
     * The verdict; `block` beats `ask` beats `pass` over all hooks. A hook that spoke before arguments were changed is
     * asked again about the new ones; then only `pass`, `ask` and `block` are open to it.
     */
    verdict: CallVerdict;
    /** A warning for the model, put beneath the result of the call. */
    note?: string;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook on a tool result. */
  export interface ResultOutcome {
    /** Parts to put in place. Blobs are told by their id, and only those that the result has may be among them. */
    content?: Array<Part>;
    /** Mark the result as an error, or not. */
    isError?: boolean;
    /** Messages to add after the results of this step. */
    inject: Array<Injection>;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Action for text that arrived during a turn. */
  export type SteeringAction =
    /** Take it as it is. */
    | { tag: "pass" }
    /** Take this text instead. */
    | { tag: "replace", val: string }
    /** Leave it out, for this reason. */
    | { tag: "drop", val: string };
  /** Outcome of a hook on steering. */
  export interface SteeringOutcome {
    /** Action for the text. */
    action: SteeringAction;
    /** Messages to add. */
    inject: Array<Injection>;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Verdict that replaces the one of reflection. */
  export type VerdictChange =
    /** Leave the verdict as it is. */
    | { tag: "keep" }
    /** The turn is done. */
    | { tag: "done" }
    /** Another step is needed, for this reason. The host bounds how often. */
    | { tag: "again", val: string };
  /** Outcome of a hook before reflection. */
  export interface ReflectionOutcome {
    /** Draft to put in place. */
    draft?: string;
    /** Criteria to add. */
    criteria: Array<string>;
    /**
     * The verdict in place of the built-in reflection, which is then not made, and neither is the model's second look. Of
     * several hooks the last one that brings a verdict decides; hooks of `post-reflect` see it and may change it.
     */
    verdict: VerdictChange;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook on the verdict of reflection. */
  export interface VerdictOutcome {
    /** The new verdict. */
    verdict: VerdictChange;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook on the output. */
  export interface OutputOutcome {
    /** Text to put in place. */
    text?: string;
    /** Hold the output back, for this reason. */
    block?: string;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Outcome of a hook on text as it is written. */
  export interface DeltaOutcome {
    /** Text to put in place of all of `text`, what is kept back included. */
    text?: string;
    /**
     * Bytes at the end of the text that are not to be shown yet: they come again, in front of what follows. The host takes
     * whole characters. 0 when nothing follows. A hook that keeps more than 65,536 bytes back is called again only when
     * the answer is whole.
     */
    keep: number;
    /** Stop the answer here, for this reason; the turn ends. */
    stop?: string;
    /** Extra requests. */
    effects: Array<Effect>;
  }
  /** Verdict of a hook on compaction or archival. */
  export type SliceVerdict =
    /** No objection. */
    | { tag: "pass" }
    /** Do not do it, for this reason. */
    | { tag: "cancel", val: string }
    /** Do it with this summary. */
    | { tag: "summary", val: string };
  /** Outcome of a hook before compaction or archival. */
  export interface SliceOutcome {
    /** Verdict on the slice. */
    verdict: SliceVerdict;
    /** Extra requests. */
    effects: Array<Effect>;
  }
}

/**
 * The model is writing an answer; the payload is the text that has not been shown yet. Called with the first piece, then
 * at line ends or every 200 ms, and once more with what is left when the answer is whole. A text that is shown in one
 * piece passes here once, with `is-last` set.
 *
 * Mutate: hooks run one after another, each on what the one before it left. What was shown is never taken back, so a
 * failing hook stops the answer unless its manifest says `on_failure = "skip"`.
 *
 * Lifecycle: called several times for each answer that is shown as it is written.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/output-delta@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { TextDelta } from "rind:plugin/payloads@0.1.1";
  import type { DeltaOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: TextDelta): DeltaOutcome;
}

/**
 * Payloads of hooks: one record for each kind of moment in a turn. Data only.
 *
 * Lifecycle: data only, nothing is called.
 * Deadline: none.
 * Access: every plugin.
 */
declare module "rind:plugin/payloads@0.1.1" {
  import type { ToolCall } from "rind:plugin/types@0.1.1";
  import type { Usage } from "rind:plugin/types@0.1.1";
  import type { EffectClass } from "rind:plugin/types@0.1.1";
  /** A session that starts or ends. */
  export interface SessionInfo {
    /** Session id. */
    id: string;
    /** Whether it goes on from an earlier run. */
    resumed: boolean;
    /** Number of messages in it. */
    messages: number;
    /** Name of the provider. */
    provider: string;
    /** Name of the model. */
    model: string;
  }
  /** Source of a text. */
  export type Source = "terminal" | "http" | "mcp" | "loop-plugin" | "agent";
  /** Text that came in. */
  export interface TurnInput {
    /** Text as it came in. */
    text: string;
    /** Source of the input. */
    source: Source;
  }
  /** Decision on how to handle a turn. */
  export type Decision = "direct" | "ask-first" | "delegate" | "plan" | "parallelize";
  /** Assessment of the input. */
  export interface Assessment {
    /** The input it judged. */
    input: string;
    /** Decision on how to handle the turn. */
    decision: Decision;
    /** Confidence in it, from 0 to 1; a `direct` below 0.35 becomes `ask-first`. */
    confidence: number;
    /** Reasons, in short phrases. */
    reasons: Array<string>;
  }
  /**
   * Tier of a part of the system prompt: how long it stays the same. Earlier tiers come first, so that a provider's prompt
   * cache holds.
   */
  export type Tier = "stable" | "context" | "volatile";
  /** One part of the system prompt. */
  export interface PromptPart {
    /** Tier of the part. */
    tier: Tier;
    /**
     * Unique within the prompt. The host puts `PLUGIN:` before the key of a plugin's part, so that no plugin can take the
     * key of another; parts of a tier are ordered by what stands behind that.
     */
    key: string;
    /**
     * Author of the part: `host`, a file, or the name of a plugin or script. The host fills it in; what a hook writes here is
     * ignored.
     */
    source: string;
    /** Text of the part. */
    text: string;
  }
  /** Context of a hook that adds to the system prompt. */
  export interface PromptContext {
    /** Name of the model. */
    model: string;
    /** Names of the tools that are active. */
    tools: Array<string>;
    /** Decision on how to handle the turn. */
    decision: Decision;
  }
  /** Purpose of a request to the model. */
  export type Purpose =
    /** A step of the conversation. */
    | { tag: "step" }
    /**
     * A question of the host's own, without tools: `reflect` (a second look at an answer), `archive` (the summary of a
     * turn) or `query` (what a transcript says).
     */
    | { tag: "host", val: string }
    /** A question of the plugin of this name, without tools. */
    | { tag: "plugin", val: string };
  /**
   * A request to the model that is about to be made. The messages themselves are at the point `context`: a hook that wants
   * no message should not pay for all of them.
   */
  export interface ModelRequest {
    /** Purpose of the request. */
    purpose: Purpose;
    /** Name of the provider. */
    provider: string;
    /** Name of the model. */
    model: string;
    /** Sampling temperature; none leaves it to the provider. */
    temperature?: number;
    /** Most tokens the model may write; none leaves it to the provider. */
    maxTokens?: number;
    /** Names of the tools that are active. */
    tools: Array<string>;
    /** Number of messages in the request. */
    messages: number;
    /** Tokens used so far in this turn. */
    usage: Usage;
  }
  /** Text of an answer that is being written. */
  export interface TextDelta {
    /** The end of what was shown already, at most 256 bytes; it cannot be changed any more. */
    before: string;
    /** Text that has not been shown: the part hooks kept back, as they left it, and the part that came since. */
    text: string;
    /** Whether nothing follows. */
    isLast: boolean;
  }
  /** A tool call about to be made. */
  export interface ProposedCall {
    /** Call with its arguments. */
    call: ToolCall;
    /** Class of the tool's effects. */
    effectClass: EffectClass;
    /** Name of the plugin the tool is from; none for a built-in tool. */
    plugin?: string;
  }
  /** A tool that ran in a turn, for reflection. */
  export interface UsedTool {
    /** Name of the tool. */
    name: string;
    /** Whether the call failed or was refused. */
    isError: boolean;
  }
  /** A turn about to end. */
  export interface Reflection {
    /** The answer as it stands. */
    draft: string;
    /** The input that the turn answers. */
    input: string;
    /** Tool calls of the turn in order. */
    tools: Array<UsedTool>;
    /** Criteria for a good answer; hooks add to them. */
    criteria: Array<string>;
  }
  /** Verdict of reflection. */
  export interface ReflectVerdict {
    /** The answer as it stands. */
    draft: string;
    /** None when the turn is done; otherwise why another step is needed. */
    continueBecause?: string;
  }
  /** Reason why a turn ended. */
  export type StopReason = "done" | "max-steps" | "blocked" | "cancelled" | "failed";
  /** A turn that has ended. */
  export interface TurnSummary {
    /** Reason for the end. */
    stop: StopReason;
    /** Steps made. */
    steps: number;
    /** Tool calls made. */
    toolCalls: number;
    /** Tokens used. */
    usage: Usage;
    /** Cost in US dollars, as far as prices are known. */
    costUsd: number;
    /** Tokens whose model has no known price. With any, `cost-usd` is the least that it was. */
    unpricedTokens: number;
    /** Milliseconds from input to end. */
    durationMs: number;
    /** Output shown to the user; empty when the turn was cut off before. */
    output: string;
  }
  /** A subagent that starts or has ended. */
  export interface SubagentInfo {
    /** Id of the subagent. */
    id: string;
    /** Task of the subagent. */
    task: string;
    /** Answer of the subagent; empty at the start. */
    answer: string;
    /** Whether it failed. */
    isError: boolean;
  }
  /** A skill that became active or ended. */
  export interface SkillInfo {
    /** Id of the skill: its folder, or `plugin:folder`. */
    id: string;
    /** Trust in its source: `managed`, `package`, `user`, `project` or `local`. */
    trust: string;
    /** Digest of the file that it was read from. */
    hash: string;
    /** Maker of the call: `user`, `model`, or `plugin NAME`. */
    by: string;
    /** Tools that its allow list names; none without one. */
    allow?: Array<string>;
    /** Tools that it denies. */
    deny: Array<string>;
    /**
     * Reason for the end: `turn`, `done` (the person ended it) or `dropped` (its turn never ended); empty when it became
     * active.
     */
    reason: string;
  }
  /** Report of a failure. */
  export interface Failure {
    /** Place: a point, a tool, `provider` or `session`. */
    where: string;
    /** Message. */
    message: string;
    /** The plugin that failed, if one did. */
    plugin?: string;
  }
}

/**
 * Calling extension points that plugins define.
 *
 * The owner of a point may call it, and the plugins that `[points.NAME] callers` in the owner's manifest lists.
 *
 * Implementers are called in the same order, with the same deadlines and failure rules, as hooks of built-in points. A
 * plugin that is already part of the call is left out, and nesting is capped. A plugin has 256 calls in one call of its
 * own.
 *
 * Lifecycle: called in a session, from hooks and tools.
 * Deadline: bounded by the deadline of the call of the plugin that makes it; each implementer has the deadline of a hook.
 * Access: every plugin; the manifest of the owner of a point says who may call it.
 */
declare module "rind:plugin/points@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** A reason that an implementer gave. */
  export interface Objection {
    /** Name of the implementer. */
    plugin: string;
    /** Reason of the refusal. */
    reason: string;
  }
  /** Combined verdict of the implementers. */
  export type Verdict =
    /** No objection. */
    | { tag: "pass" }
    /**
     * Ask the user first, for each of these reasons. Nobody was asked: whoever calls the point passes it on (`ask` of
     * `pre-tool`) or takes it as a refusal.
     */
    | { tag: "ask", val: Array<Objection> }
    /** Refused, by the first implementer that did. */
    | { tag: "block", val: Objection };
  /** Outcome of a call. */
  export interface Answer {
    /** JSON text: for gate and mutate the final value, for collect an array of what was contributed, for observe `null`. */
    value: string;
    /** The verdict; always `pass` at collect and observe points. */
    verdict: Verdict;
  }
  /**
   * Calls every implementer of a point. `point` is the `NAME` of an own point, or `owner.NAME`. `payload` is JSON text of
   * at most 1 MiB that fits the `payload` schema of the point. A point that the plugin may not call is `denied`.
   */
  export function call(point: string, payload: string): Answer;
}

/**
 * The input was assessed. The host's own assessment is a table of words and costs nothing; a plugin that assesses in its
 * place answers with one of its own, all of which counts.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each input, when it was assessed.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/post-assess@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Assessment } from "rind:plugin/payloads@0.1.1";
  import type { AssessmentOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Assessment): AssessmentOutcome;
}

/**
 * The output was shown; the payload is its text.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each output, when it was shown.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/post-output@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: string): Observed;
}

/**
 * The model has answered; the payload is its message.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each step, when the model has answered.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/post-reason@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Message } from "rind:plugin/types@0.1.1";
  import type { ReplyOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Message): ReplyOutcome;
}

/**
 * Reflection has decided whether the turn is done.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called each time that reflection has decided.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/post-reflect@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { ReflectVerdict } from "rind:plugin/payloads@0.1.1";
  import type { VerdictOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: ReflectVerdict): VerdictOutcome;
}

/**
 * A tool call was made, refused or cancelled.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each tool call, whatever came of it.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/post-tool@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { FinishedCall } from "rind:plugin/handles@0.1.1";
  import type { ResultOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: FinishedCall): ResultOutcome;
}

/**
 * The input is about to be assessed.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each input, behind `turn-start`.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/pre-assess@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { TurnInput } from "rind:plugin/payloads@0.1.1";
  import type { InputOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: TurnInput): InputOutcome;
}

/**
 * The output is about to be shown; the payload is its text.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each output, before it is shown.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/pre-output@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { OutputOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: string): OutputOutcome;
}

/**
 * The model is about to be asked, for a step or beside the conversation: the payload says what for.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each request to the model, before it is built.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/pre-reason@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { ModelRequest } from "rind:plugin/payloads@0.1.1";
  import type { RequestOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: ModelRequest): RequestOutcome;
}

/**
 * The turn is about to be reflected on. A plugin that reflects in the host's place brings its verdict here, so that the
 * host does not make its own.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called each time that the model calls no more tools.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/pre-reflect@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Reflection } from "rind:plugin/payloads@0.1.1";
  import type { ReflectionOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: Reflection): ReflectionOutcome;
}

/**
 * A tool call is about to be made. Its arguments have been checked; policy comes after.
 *
 * Gate: hooks run one after another and may refuse; a failing hook refuses unless its manifest says `on_failure = "skip"`.
 *
 * Lifecycle: called once for each tool call, and again when another hook changed the arguments.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: every plugin; to change the arguments needs the side effect `session`.
 */
declare module "rind:plugin/pre-tool@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { ProposedCall } from "rind:plugin/payloads@0.1.1";
  import type { CallOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: ProposedCall): CallOutcome;
}

/**
 * The conversation so far.
 *
 * Lifecycle: called in a session.
 * Deadline: bounded by the deadline of the call of the plugin that makes it.
 * Access: granted to plugins with the side effect `session`.
 */
declare module "rind:plugin/session@0.1.1" {
  import type { Message } from "rind:plugin/types@0.1.1";
  import type { Error } from "rind:plugin/types@0.1.1";
  /** The last messages, oldest first; at most 1,000. */
  export function messages(last: number): Array<Message>;
  /** The messages after the one of this id, oldest first, or all if there is none of this id; at most the last 1,000. */
  export function messagesAfter(id: string): Array<Message>;
  /**
   * Keeps an entry of the plugin's own in the session file. The model never sees it. `value` is JSON text of at most 1
   * MiB, of any shape; secrets in it are masked, and a name that holds one is refused.
   */
  export function append(name: string, value: string): void;
}

/**
 * A session is about to be closed.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each session of the main agent, after its last turn; not for subagents.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/session-end@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { SessionInfo } from "rind:plugin/payloads@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: SessionInfo): Observed;
}

/**
 * A session was opened, fresh or resumed.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each session of the main agent, before its first turn; not for subagents.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/session-start@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { SessionInfo } from "rind:plugin/payloads@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: SessionInfo): Observed;
}

/**
 * Programs that a shell command starts, as the rules of `[tools]` read it.
 *
 * For gates on tools that run commands: none of them need read the shell's language by itself.
 *
 * Lifecycle: called at any time.
 * Deadline: that of the call; a command of a line is read in microseconds, the longest in less than a tenth of a second.
 * Access: every plugin: a reading tells nothing but what is in the command.
 */
declare module "rind:plugin/shell@0.1.1" {
  /** A program that a command starts, or a file that it writes. */
  export interface Program {
    /** The program and its arguments, without quotes. `none` is what only the shell knows: one word, several, or no word. */
    words: Array<string | undefined>;
    /** Whether the command sets variables for it, which may change what it does. */
    isAltered: boolean;
    /** Whether it is no program, but a file that output goes to through `>`: its path is the only word. */
    isRedirection: boolean;
  }
  /** Reading of a command. */
  export interface Reading {
    /**
     * Programs that it starts, in the order of the text. Those in a substitution, or that another program starts, stand before the
     * one around them.
     */
    programs: Array<Program>;
    /** Reason why these may not be all of them, such as a loop or a variable that names a program. `none` when they are all. */
    doubt?: string;
  }
  /** Reads a command as `bash -c` would run it. A command of more than 65,536 bytes has a doubt and no programs. */
  export function read(command: string): Reading;
}

/**
 * A skill became active: calls are kept to the tools that it leaves.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each skill that becomes active, in the agent that it is active in.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/skill-activated@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { SkillInfo } from "rind:plugin/payloads@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: SkillInfo): Observed;
}

/**
 * A skill ended, and with it what it kept calls to.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each skill that ends: with its turn, when the person ends it, or with the next turn after one that was
 * dropped.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/skill-ended@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { SkillInfo } from "rind:plugin/payloads@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: SkillInfo): Observed;
}

/**
 * Values that last as long as the session.
 *
 * An instance may be thrown away at any moment, so what must last through the session goes here. It survives a trap
 * and `--resume`. Each plugin sees its own keys only. Values are UTF-8 text.
 *
 * Lifecycle: called in a session.
 * Deadline: bounded by the deadline of the call of the plugin that makes it.
 * Access: every plugin.
 */
declare module "rind:plugin/state@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** The value of a key, if it is set. */
  export function get(key: string): string | undefined;
  /**
   * Sets a key. Keys have at most 256 bytes, values at most 16 MiB, all of a plugin's values in a session 64 MiB.
   * Secrets in the value are masked; a key that holds one is refused.
   */
  export function set(key: string, value: string): void;
  /** Removes a key; nothing happens when it is not set. */
  export function remove(key: string): void;
  /** The keys that start with `prefix`, sorted. */
  export function keys(prefix: string): Array<string>;
}

/**
 * A line of status of the plugin's own, for whoever watches the session: on the screen it stands beside the plugin's name.
 *
 * Lifecycle: called at any time.
 * Deadline: none: the line is taken.
 * Access: every plugin.
 */
declare module "rind:plugin/status@0.1.1" {
  /**
   * Sets the line; an empty text takes it away. It is escaped, one line, and cut to 80 characters. Changes beyond 1,000 in a session
   * are left out.
   */
  export function set(text: string): void;
}

/**
 * Text came in while a turn was running.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each text, before the step that takes it.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/steering-received@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { TurnInput } from "rind:plugin/payloads@0.1.1";
  import type { SteeringOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: TurnInput): SteeringOutcome;
}

/**
 * Values that last as long as the plugin is installed, across sessions.
 *
 * Each plugin sees its own keys only. Values are UTF-8 text. Two sessions may write at once: the last one wins.
 *
 * Lifecycle: called at any time but while the plugin is loaded.
 * Deadline: bounded by the deadline of the call of the plugin that makes it.
 * Access: every plugin.
 */
declare module "rind:plugin/store@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** The value of a key, if it is set. */
  export function get(key: string): string | undefined;
  /**
   * Sets a key. Keys have at most 256 bytes, values at most 16 MiB, all of a plugin's values together 64 MiB.
   * Secrets in the value are masked; a key that holds one is refused.
   */
  export function set(key: string, value: string): void;
  /** Removes a key; nothing happens when it is not set. */
  export function remove(key: string): void;
  /** The keys that start with `prefix`, sorted. */
  export function keys(prefix: string): Array<string>;
}

/**
 * A subagent has ended.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each subagent, however it ended.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/subagent-end@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { SubagentInfo } from "rind:plugin/payloads@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: SubagentInfo): Observed;
}

/**
 * A subagent is about to run.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each subagent.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/subagent-start@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { SubagentInfo } from "rind:plugin/payloads@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: SubagentInfo): Observed;
}

/**
 * The system prompt is being put together; hooks run side by side and contribute parts.
 *
 * Collect: hooks run side by side and contribute; a failing hook is reported and its contribution left out.
 *
 * Lifecycle: called once for each turn, when the input was assessed.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/system-prompt@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { PromptContext } from "rind:plugin/payloads@0.1.1";
  import type { PromptOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: PromptContext): PromptOutcome;
}

/**
 * Tools that a plugin offers to the model.
 *
 * A name that is taken, by the host or by another plugin, is refused. Calls go through the same checks, hooks, policy
 * and approval as built-in tools.
 *
 * Lifecycle: `list` is called once when the plugin is loaded, `call` in a turn for each call of the model or of another
 * plugin.
 * Deadline: 5 s for `list`; 60 s for `call`, which `[limits] timeout` sets to at most 600 s.
 * Access: every plugin may export it; each tool is shown to the operator, and policy and approval decide on each call.
 */
declare module "rind:plugin/tools@0.1.1" {
  import type { Answer } from "rind:plugin/types@0.1.1";
  import type { EffectClass } from "rind:plugin/types@0.1.1";
  import type { Error } from "rind:plugin/types@0.1.1";
  /** One tool. */
  export interface ToolSpec {
    /** Name as the model sees it, `[a-zA-Z0-9_-]`, at most 64 bytes. */
    name: string;
    /** Description for the model: what the tool does and when to use it; at most 4,096 bytes. */
    description: string;
    /**
     * JSON Schema of the arguments, JSON text, `"type": "object"`; at most 65,536 bytes. References outside it are
     * refused.
     */
    parameters: string;
    /** Class of its effects. The host raises it to what the plugin's side effects allow for. */
    effectClass: EffectClass;
  }
  /**
   * Lists the tools. Called once when the plugin is loaded, before it was granted anything: nothing but its settings can
   * be reached then. Another answer than the one that was granted holds the plugin until the operator says yes again.
   */
  export function list(): Array<ToolSpec>;
  /**
   * Runs one tool. `arguments` is JSON text that fits the tool's `parameters`; the answer is what the model is shown. An error
   * is told to the model as a failed call of one text.
   */
  export function call(name: string, arguments_: string): Answer;
}

/**
 * Calling other tools.
 *
 * Such calls go through the same checks, hooks, policy and approval as the model's own, with the plugin named in the
 * question; only tools that the model may call in the present step are there. Hooks of the calling plugin do not fire on
 * them, and its own tools are `denied`. A plugin has 100 in a turn.
 *
 * Lifecycle: called in a turn, from hooks and tools, and from `run` of `loop`.
 * Deadline: bounded by the deadline of the call of the plugin that makes it.
 * Access: granted to plugins with the side effect `external`, tool by tool.
 */
declare module "rind:plugin/tools-host@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Part } from "rind:plugin/types@0.1.1";
  /**
   * Calls a tool by the name the model sees. `arguments` is JSON text of at most 1 MiB that fits
   * the `parameters` schema of the tool. A refused call is `denied`, one with arguments that do
   * not fit `invalid-input`, one that ran and failed `failed`. What hooks have to say of the result stands beneath it.
   */
  export function call(name: string, arguments_: string): Array<Part>;
}

/**
 * A turn has ended, however it ended.
 *
 * Observe: nothing can be changed; a failing hook is reported and skipped.
 *
 * Lifecycle: called once for each turn, as its last point.
 * Deadline: 5 s, 15 s with `async = true`; manifest and operator lower it, and the manifest raises it to 60 s for a plugin
 * that was granted `model` or `agents`.
 * Access: every plugin.
 */
declare module "rind:plugin/turn-end@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { TurnSummary } from "rind:plugin/payloads@0.1.1";
  import type { Observed } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: TurnSummary): Observed;
}

/**
 * Input has arrived and a turn is about to start.
 *
 * Mutate: hooks run one after another, each on what the one before it left; a failing hook is reported and skipped
 * unless its manifest says `on_failure = "block"`.
 *
 * Lifecycle: called once for each turn and each follow-up, of subagents too, before anything else is done with the input.
 * Deadline: 5 s; manifest and operator lower it, and the manifest raises it to 60 s for a plugin that was granted `model`
 * or `agents`.
 * Access: needs the side effect `session`.
 */
declare module "rind:plugin/turn-start@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { TurnInput } from "rind:plugin/payloads@0.1.1";
  import type { InputOutcome } from "rind:plugin/outcomes@0.1.1";
  /** Called by the host at this point. */
  export function run(payload: TurnInput): InputOutcome;
}

/**
 * Running turns of the agent, in sessions that the loop names.
 *
 * A turn of a loop is a turn like any other: hooks, policy, limits, journal and events are those of the operator, and hooks see
 * `loop-plugin` as the source of its input. No person is asked, except where `rind serve --listen` runs: then questions wait for
 * whoever uses its API or pages. A loop starts at most 20 turns a minute, runs at most 4 at once, and one at a time in a session.
 * Turns that still run when the run of the loop ends are interrupted.
 *
 * Lifecycle: called from `run` of `loop`. A call from a hook, a tool or a command is `denied`.
 * Deadline: stands still while the loop waits for a turn.
 * Access: granted to plugins with the side effect `external` and `[external] turns = true`. A loop uses the sessions that it began
 * in this workspace, and no others; with `session` granted as well, also the conversations of people there.
 */
declare module "rind:plugin/turns@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** Session in which a turn runs. */
  export type TurnSession =
    /** A new one. */
    | { tag: "fresh" }
    /** The one that this loop keeps under this name in this workspace: 1 to 40 of a-z, 0-9 and `-`. It is made when it is missing. */
    | { tag: "named", val: string }
    /** One that exists, by its whole id. */
    | { tag: "existing", val: string };
  /** Work for a turn. */
  export interface TurnOrder {
    /** Input of the turn, at most 1 MiB. */
    input: string;
    /** Session of the turn. */
    session: TurnSession;
    /** Model to ask in this turn; none takes the host's. */
    model?: string;
    /**
     * Preset of subagents that selects the tools of this turn, such as `investigate` for those that only read, or `minimal` for
     * none. Without one, the turn has all tools of the session. Instructions and model of the preset are not used.
     */
    preset?: string;
    /**
     * Id of the input, 1 to 256 bytes. A session takes an input with an id once: given again, the outcome of its turn is returned,
     * and an interrupted turn goes on.
     */
    inputId?: string;
    /** Cost in US dollars at which the turn ends, before the request that could exceed it. */
    maxCostUsd?: number;
  }
  /** A turn that has ended. */
  export interface TurnReport {
    /** Id of the session. */
    session: string;
    /** Number of the turn in the session. */
    turn: number;
    /** Reason for the end: `done`, `max-steps`, `blocked`, `cancelled` or `failed`. Further words may come. */
    state: string;
    /** Output of the turn, or the reason why there is none. */
    answer: string;
    /** Number of steps. */
    steps: number;
    /** Number of tool calls. */
    toolCalls: number;
    /** Cost in US dollars of the tokens with a known price. */
    costUsd: number;
    /** Tokens whose model has no known price. */
    unpricedTokens: number;
  }
  /** Runs a turn to its end. */
  export function run(order: TurnOrder): TurnReport;
  /** Starts a turn and returns the id of its session at once. */
  export function start(order: TurnOrder): string;
  /**
   * Waits for the end of the turn that this loop started in a session, at most as long as `timeout-ms` says, and returns its
   * report: none when it still runs. A report is returned once.
   */
  export function finish(session: string, timeoutMs: number): TurnReport | undefined;
  /**
   * Says something to the turn that this loop runs in a session; the model reads it before its next request. `not-found` when
   * none runs.
   */
  export function steer(session: string, text: string): void;
  /** Interrupts the turn that this loop runs in a session; `finish` returns its report. Returns whether one runs. */
  export function stop(session: string): boolean;
  /** Returns the sessions in which turns of this loop run or have reports that were not returned yet. */
  export function running(): Array<string>;
}

/**
 * Types that all interfaces use: messages, tool calls, usage, and errors.
 *
 * Data only, without access to anything. Identifiers are opaque strings, times are milliseconds,
 * open-ended values are JSON text and say so: each names its schema, and none may be nested more than 48 levels deep.
 *
 * Lifecycle: data only, nothing is called.
 * Deadline: none.
 * Access: every plugin.
 */
declare module "rind:plugin/types@0.1.1" {
  /** Role of a message's sender, as the model sees it. */
  export type Role = "user" | "assistant" | "tool";
  /** One request of the model to run a tool. */
  export interface ToolCall {
    /** Id that the provider gave; the result carries it back. */
    id: string;
    /** Name of the tool as the model sees it. */
    name: string;
    /**
     * Arguments as JSON text: an object that fits the `parameters` schema of the tool, unless the call was refused because
     * it does not.
     */
    arguments: string;
  }
  /** Bytes that are not text, by reference. The session keeps them; `blobs.read` returns them. */
  export interface Blob {
    /** Id, the same for the same bytes. */
    id: string;
    /** Media type, such as `image/png`. Images are told by their bytes. */
    mediaType: string;
    /** Number of bytes. */
    size: number;
  }
  /** One part of a tool's result. */
  export type Part =
    /** Plain text. */
    | { tag: "text", val: string }
    /** A value as JSON text, of any shape. */
    | { tag: "json", val: string }
    /** Bytes that the session keeps. */
    | { tag: "blob", val: Blob };
  /** Bytes that a tool answers. */
  export interface Bytes {
    /** Media type, such as `application/pdf`. PNG, JPEG, GIF and WebP images are told by their bytes, whatever stands here. */
    mediaType: string;
    /** The bytes, at most 8 MiB. Those that are text are scanned for secrets. */
    content: Uint8Array;
  }
  /** One part of what a tool answers. */
  export type AnswerPart =
    /** Plain text. */
    | { tag: "text", val: string }
    /** A value as JSON text of at most 1 MiB, of any shape. */
    | { tag: "json", val: string }
    /**
     * Bytes, which the session keeps. Models that take images are shown PNG, JPEG, GIF and WebP images of at most 3,932,160
     * bytes; anything else is told of as its media type and size.
     */
    | { tag: "bytes", val: Bytes };
  /** Answer of a tool to one call. */
  export interface Answer {
    /** Parts in order, at most 100. */
    parts: Array<AnswerPart>;
    /** Whether the call failed. */
    isError: boolean;
  }
  /** Result of a tool call. */
  export interface ToolResult {
    /** Id of the call that this answers. */
    callId: string;
    /** Name of the tool. */
    name: string;
    /** Parts for the model, in order. */
    parts: Array<Part>;
    /** Whether the call failed, was refused or was cancelled. */
    isError: boolean;
  }
  /** One part of a message. */
  export type Content =
    /** Plain text. */
    | { tag: "text", val: string }
    /** The model's reasoning, where a provider shows it. */
    | { tag: "thinking", val: string }
    /** Bytes, such as an image. */
    | { tag: "blob", val: Blob }
    /** A tool call; only in assistant messages. */
    | { tag: "tool-call", val: ToolCall }
    /** A tool result; only in tool messages. */
    | { tag: "tool-result", val: ToolResult };
  /** Author of the text of a message. The role only says as whom the model reads it. */
  export type Origin =
    /** User of the agent. */
    | { tag: "user" }
    /** The model, in this conversation. */
    | { tag: "model" }
    /** Tools, answering the calls of a message; a result may end with the notes of hooks, each with its plugin's name. */
    | { tag: "tools" }
    /** A plugin, by its name. */
    | { tag: "plugin", val: string }
    /** A model, a plugin or the host, in place of messages that were compacted or archived. */
    | { tag: "summary" }
    /** A model or a plugin that sent an answer back. */
    | { tag: "reflection" }
    /** The agent that gave this one its task. */
    | { tag: "agent" };
  /** One entry of the conversation. */
  export interface Message {
    /** Id of the message within the session. */
    id: string;
    /** Role of the sender, as the model reads it. */
    role: Role;
    /** Author of the message. */
    origin: Origin;
    /** Parts in order. */
    content: Array<Content>;
  }
  /**
   * A message that a hook adds to the conversation. It reaches the model as a user message that names the plugin,
   * so a plugin can neither speak as the model nor forge a tool result.
   */
  export interface Injection {
    /** Text of the message. */
    text: string;
    /** True keeps it in the session; false shows it to the model in the next request only. */
    keep: boolean;
  }
  /** Tokens of one or more provider calls. */
  export interface Usage {
    /** Tokens of the prompt, cached ones included. */
    inputTokens: number;
    /** Tokens that the model wrote. */
    outputTokens: number;
    /** Part of the input that was read from the provider's cache. */
    cacheReadTokens: number;
    /** Part of the input that was written to the provider's cache. */
    cacheWriteTokens: number;
    /** Whether some of it was estimated by the host, because the provider did not say. */
    estimated: boolean;
  }
  /** Class of a tool's effects on the world outside the conversation. */
  export type EffectClass = "read" | "write" | "execute" | "external";
  /** Level of a log line or notice. */
  export type Level = "debug" | "info" | "warn" | "error";
  /** One line for the log. */
  export interface LogLine {
    /** Level. */
    level: Level;
    /** One line of text, at most 4,096 bytes; control characters are escaped. */
    text: string;
  }
  /** One measured value. */
  export interface Metric {
    /** Name of the metric, `[a-z0-9_.]`. */
    name: string;
    /** The value, in the unit that the name ends with. */
    value: number;
  }
  /** A key and the value to keep under it. */
  export interface Stored {
    /** The key, at most 256 bytes. */
    key: string;
    /** Value that is stored. */
    value: string;
  }
  /**
   * Effect that a hook requests besides its outcome. Each is carried out in the plugin's name, after the outcome was accepted;
   * nothing of a failed hook's effects is carried out.
   */
  export type Effect =
    /** Write a line to the log. */
    | { tag: "log", val: LogLine }
    /** Record a value. */
    | { tag: "metric", val: Metric }
    /** Keep a value in the plugin's store, as `store.set` does. */
    | { tag: "store", val: Stored }
    /** Show a notice to the person at the terminal. */
    | { tag: "notify", val: LogLine };
  /** Error of a plugin's function, or of a host function. The text is shown to people and capped. */
  export type Error =
    /** The caller passed something that makes no sense. */
    | { tag: "invalid-input", val: string }
    /** No such thing. */
    | { tag: "not-found", val: string }
    /** Not allowed. */
    | { tag: "denied", val: string }
    /** Too big, too many, or too often. */
    | { tag: "limit", val: string }
    /** Any other failure. */
    | { tag: "failed", val: string };
}

/**
 * Waiting in a loop: for a timer, a change of files, a message, or the end of the host.
 *
 * The time of a wait does not count towards the deadline of the run, so that a loop may wait for days and compute for a minute.
 * Waits of a minute or more begin the limits of the loop anew, as a further run would.
 *
 * Lifecycle: called from `run` of `loop`. A call from a hook, a tool or a command is `denied`.
 * Deadline: stands still while the loop waits. When the host ends, every wait ends with `shutdown`, and the run has 2 s to return.
 * Access: every plugin with a loop. Files are watched in the folders that were granted to read.
 */
declare module "rind:plugin/waiting@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  /** Events that end a wait; the first of them does. With none of them, it waits for the end of the host. */
  export interface WakeConditions {
    /** Milliseconds after which the wait ends; less than 10 are taken as 10. */
    timeoutMs?: number;
    /**
     * Files and folders, at most 8, written as for `files`, whose change ends the wait. Of a folder, its own entries count, and
     * not those of folders in it. They are looked at about twice a second.
     */
    paths: Array<string>;
    /** Whether a message ends the wait, to the loop or on a connection of `websocket`. */
    messages: boolean;
  }
  /** A message to the loop. Messages are kept in memory, at most 64; those that no run took are lost when the host ends. */
  export interface LoopMessage {
    /** Sender: `http` for a request to the API of the host. Further words may come. */
    sender: string;
    /** Text of the message, at most 64 KiB. Whoever may use the API of the host can send one. */
    text: string;
  }
  /** Reason for the end of a wait. */
  export type Wakeup =
    /** The time has passed. */
    | { tag: "timer" }
    /**
     * This path has changed since a wait of this run last told of it. The first wait of a run for a path ends at once, so that
     * nothing is missed between looking and waiting: wait, then look.
     */
    | { tag: "changed", val: string }
    /** A message came. */
    | { tag: "message", val: LoopMessage }
    /** The host ends: return soon. A turn that runs is interrupted. */
    | { tag: "shutdown" }
    /** This connection of `websocket` has something to receive. */
    | { tag: "connection", val: number };
  /** Waits for the first of these events. More than 8 paths are a `limit` error; a path that was not granted is `denied`. */
  export function wait(until: WakeConditions): Wakeup;
}

/**
 * WebSocket connections of a loop to the hosts that the plugin was granted.
 *
 * The rules of `http` hold: hosts are granted by scheme, name and port, where `wss` counts as `https` and `ws` as `http`; every
 * address of a name is checked, and the checked addresses are the only ones connected to; credentials of the manifest are put into
 * the handshake, and `[masked: NAME]` stands for them where they come back. A redirect is not followed. What is sent may contain no
 * secret. Each opening counts as a request. Pings are answered by the host.
 *
 * Messages wait in the host until the loop takes them: at most 256 and 4 MiB on a connection. When that is reached, the host
 * reads no more from it until some are taken. `waiting` tells of connections with something to receive where it waits for
 * messages. A server that sends nothing for 90 s, not even answers to pings, or more than 500 control frames in 10 s, is
 * disconnected.
 *
 * Lifecycle: called from `run` of `loop`; a call from a hook, a tool or a command is `denied`. At the end of the run, its connections
 * are closed. Opening and closing leave an access record each, the second with the number of messages and bytes.
 * Deadline: stands still while the loop opens a connection, at most 30 s, and sends, at most 10 s.
 * Access: granted to plugins with the side effect `network`, host by host.
 */
declare module "rind:plugin/websocket@0.1.1" {
  import type { Error } from "rind:plugin/types@0.1.1";
  import type { Header } from "rind:plugin/http@0.1.1";
  /** A connection to open. */
  export interface ConnectRequest {
    /** The whole URL, `wss` unless the grant says `http://`, without user and password, at most 8 KiB. */
    url: string;
    /** Headers of the handshake, as for `http`. */
    headers: Array<Header>;
    /** Subprotocols to offer, at most 8; the server may choose one. */
    protocols: Array<string>;
  }
  /** Contents of a message. */
  export type Frame =
    /** Text. */
    | { tag: "text", val: string }
    /** Bytes. */
    | { tag: "binary", val: Uint8Array };
  /** Events on a connection. */
  export type ConnectionEvent =
    /** A message came. */
    | { tag: "message", val: Frame }
    /** The connection has ended, for this reason. No further events follow. */
    | { tag: "closed", val: string };
  /**
   * Opens a connection and returns its number in this run. A plugin has at most 4 at a time.
   *
   * Errors are those of `http`: `denied` also for a redirect, `failed` also for a server that refuses the handshake.
   */
  export function open(request: ConnectRequest): number;
  /**
   * Sends a message of at most 1 MiB. `not-found` when the connection has ended, `failed` when the server does not take it in time;
   * then the connection is ended.
   */
  export function send(connection: number, message: Frame): void;
  /**
   * Takes the next event, if there is one; does not wait. A message has at most 1 MiB; a longer one ends the connection. `not-found`
   * when the end was told before.
   */
  export function receive(connection: number): ConnectionEvent | undefined;
  /** Closes a connection; messages that were not taken are lost. Nothing happens when it has ended. */
  export function close(connection: number): void;
}
