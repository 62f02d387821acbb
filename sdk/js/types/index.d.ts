/// <reference path="./contract.d.ts" />
import type { Answer, EffectClass, Error as ContractError, Part } from "rind:plugin/types@0.1.1";
import type { CallVerdict } from "rind:plugin/outcomes@0.1.1";
import type { CommandOutcome, CommandSpec } from "rind:plugin/commands@0.1.1";
import type { LoopOutcome } from "rind:plugin/loop@0.1.1";
import type { ToolSpec } from "rind:plugin/tools@0.1.1";

export { hooks, type Hook } from "./hooks.js";

/** One tool. `Args` fits `parameters`: the host checks that before it calls. */
export interface Tool<Args = any> {
  /** Description for the model: what the tool does and when to use it. */
  description: string;
  /** JSON Schema of the arguments, with `type: "object"`. */
  parameters: object;
  /** Class of its effects. */
  effect: EffectClass;
  /** Runs the tool. A text or an answer is shown as it is, anything else as JSON; what is thrown is a failed call. */
  run(args: Args): string | Answer | object;
}

/** Makes the export `tools` of functions with their descriptions; the key is the name of the tool. */
export declare function tools(all: Record<string, Tool>): {
  list(): ToolSpec[];
  call(name: string, args: string): Answer;
};

/** One slash command. `Args` fits `arguments`: the host reads them from the line and checks them. */
export interface Command<Args = any> {
  /** Description for the person, one line. */
  description: string;
  /** JSON Schema of the arguments, with `type: "object"`; without one, `run` is given the text behind the name. */
  arguments?: object;
  /** Runs the command. A text is shown, `prompt` starts a turn, nothing shows nothing; what is thrown is a failed call. */
  run(args: Args): string | CommandOutcome | object | void;
}

/** Makes the export `commands` of functions with their descriptions; the key is the name of the command, without the slash. */
export declare function commands(all: Record<string, Command>): {
  list(): CommandSpec[];
  run(name: string, args: string): CommandOutcome;
};

/** Starts a turn with this input. */
export declare function prompt(text: string): CommandOutcome;

/** Makes the export `loop` of a function that is one run: it returns `again(…)`, or nothing when nothing is left to do. What is thrown
 * is a failed run, after which the host waits for a pause that grows. */
export declare function runLoop(run: () => LoopOutcome | void): { run(): LoopOutcome };

/** Asks for another run after this many milliseconds. The reason is a few words for the operator. */
export declare function again(afterMs: number, reason: string): LoopOutcome;

/** Verdicts on a tool call, for the outcome of `hooks.preTool`. */
export declare const verdict: {
  pass(): CallVerdict;
  /** Runs the call with these arguments; needs the side effect `session`. */
  change(args: object): CallVerdict;
  ask(reason: string): CallVerdict;
  block(reason: string): CallVerdict;
};

/** A part of a result that is plain text. */
export declare function text(value: string): Part;

/** The error of the contract for anything that was thrown. */
export declare function asError(error: unknown): ContractError;

/** Text as bytes and bytes as text. The engine has neither TextEncoder nor TextDecoder. */
export declare const utf8: {
  encode(value: string): Uint8Array;
  /** What is not UTF-8 becomes U+FFFD. */
  decode(bytes: Uint8Array): string;
};
