/** Makes the export `loop` of a function that is one run. */
export function runLoop(run) {
  return {
    run() {
      return run() ?? { tag: "done" };
    },
  };
}

/** Asks for another run after this many milliseconds. */
export function again(afterMs, reason) {
  if (!(afterMs >= 0)) throw { tag: "invalid-input", val: `${afterMs} is no number of milliseconds` };
  // The engine takes a number here, and traps at a bigint.
  return { tag: "again", val: { afterMs: Math.min(Math.round(afterMs), Number.MAX_SAFE_INTEGER), reason } };
}
