/** Makes what a module exports for a point: runs the author's function and fills in what its outcome leaves out. */
export function hook(run, empty) {
  return {
    run(payload) {
      try {
        return { ...empty(), ...run(payload) };
      } catch (error) {
        throw asError(error);
      }
    },
  };
}

/** The error of the contract for anything that was thrown. */
export function asError(error) {
  if (error && typeof error.tag === "string") return error;
  if (error && error.payload && typeof error.payload.tag === "string") return error.payload;
  return { tag: "failed", val: String(error?.message ?? error) };
}
