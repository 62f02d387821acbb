/** Verdicts on a tool call, for the outcome of `hooks.preTool`. */
export const verdict = {
  pass: () => ({ tag: "pass" }),
  change: (args) => ({ tag: "change", val: JSON.stringify(args) }),
  ask: (reason) => ({ tag: "ask", val: reason }),
  block: (reason) => ({ tag: "block", val: reason }),
};

/** A part of a result that is plain text. */
export const text = (value) => ({ tag: "text", val: value });
