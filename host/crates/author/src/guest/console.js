// The object `console`, which the engine does not have: its lines go to the log of the host.
import { write } from "{{log}}";

const shown = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `${item}n` : item)) ?? String(value);
  } catch {
    return String(value);
  }
};

// While the component is built there is no host, and no log.
const line = (level) => (...values) => {
  if (!globalThis.__rindIsLive) return;
  const text = values.map(shown).join(" ").replace(/[\uD800-\uDFFF]/gu, "\uFFFD");
  for (const one of text.split("\n")) write(level, one);
};

globalThis.console ??= {
  debug: line("debug"),
  trace: line("debug"),
  log: line("info"),
  info: line("info"),
  warn: line("warn"),
  error: line("error"),
  assert: (holds, ...values) => holds || line("error")("assertion failed:", ...values),
};
