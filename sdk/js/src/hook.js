/** Makes what a module exports for a point: runs the author's function and fills in what its outcome leaves out. */
export function hook(run, empty) {
  return {
    run(payload) {
      const value = run(payload);
      if (value === undefined || value === null) return empty();
      // What is no outcome, a promise too, has no fields to fill in: it goes on as it is, and the component refuses it.
      if (typeof value !== "object" || Array.isArray(value) || typeof value.then === "function") return value;
      return { ...empty(), ...value };
    },
  };
}

/** The error of the contract for anything that was thrown. */
export function asError(error) {
  if (error && typeof error.tag === "string") return error;
  if (error && error.payload && typeof error.payload.tag === "string") return error.payload;
  return { tag: "failed", val: String(error?.message ?? error) };
}

/** Fails for a promise: the host waits for no answer. */
export function atOnce(value) {
  if (typeof value?.then === "function") throw new TypeError("the function returned a promise; it must answer at once, without `async`");
  return value;
}
