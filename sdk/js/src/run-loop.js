import { asError } from "./hook.js";

/** Makes the export `loop` of a function that is one run. */
export function runLoop(run) {
  return {
    run() {
      try {
        return run() ?? { tag: "done" };
      } catch (error) {
        throw asError(error);
      }
    },
  };
}

/** Asks for another run after this many milliseconds. */
export function again(afterMs, reason) {
  return { tag: "again", val: { afterMs: BigInt(Math.max(0, Math.round(afterMs))), reason } };
}
