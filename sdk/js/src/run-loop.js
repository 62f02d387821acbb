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
  const rounded = Math.min(Math.round(Number(afterMs)), Number.MAX_SAFE_INTEGER);
  return { tag: "again", val: { afterMs: rounded, reason } };
}
