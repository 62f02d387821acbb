// Entry of the component, written by `rind plugin build`: stands between the host and the exports of the plugin. It passes on what a
// function returns once that fits the contract, and tells of an exception with its type, message and place.
import { checkHandle, fault, isObject, named, plainNumbers } from "./check.js";

const RESULTS = {{results}};
const MAX_FRAMES = 5;
const ERRORS = ["invalid-input", "not-found", "denied", "limit", "failed"];

/** Places of an error in the source of the plugin, innermost call first. */
function places(error) {
  const { sources, lines } = globalThis.__rindPlaces ?? { sources: [], lines: [] };
  const found = [];
  for (const frame of String(error.stack ?? "").split("\n")) {
    const [, name, line] = /^\s*at (.*?)\s*\(?[^\s(]*?:(\d+)(?::\d+)?\)?\s*$/.exec(frame) ?? [];
    const source = line && sources[lines[2 * line]];
    if (source && found.length < MAX_FRAMES) found.push(`${source}:${lines[2 * line + 1]}${name && name !== "<anonymous>" ? ` in ${name}` : ""}`);
  }
  return found;
}

function described(error) {
  const at = places(error);
  const text = `${error.name ?? "Error"}: ${error.message}${at.length > 0 ? ` (at ${at.join(", called at ")})` : ""}`;
  return error.cause instanceof Error ? `${text}; caused by ${described(error.cause)}` : text;
}

const wellFormed = (text) => text.replace(/[\uD800-\uDFFF]/gu, "\uFFFD");

/** The error of the contract for anything that was thrown. */
function asError(error) {
  const own = isObject(error) && !(error instanceof Error && error.payload === undefined) ? error.payload ?? error : undefined;
  if (own && ERRORS.includes(own.tag) && typeof own.val === "string") return { tag: own.tag, val: wellFormed(own.val) };
  const text = error instanceof Error ? described(error) : typeof error === "string" ? error : `it threw ${named(error)}`;
  return { tag: "failed", val: wellFormed(text) };
}

function call(name, run, args, result) {
  globalThis.__rindIsLive = true;
  args.forEach(checkHandle);
  let value;
  try {
    value = run(...args);
  } catch (error) {
    throw asError(error);
  }
  if (result === null) return value;
  const found = fault("", result, value);
  if (found) throw { tag: "failed", val: wellFormed(`\`${name}\` returned what does not fit: ${found}`) };
  return plainNumbers(value);
}

/** Makes an export of the component from one of the plugin. */
export function guard(name, own) {
  const [wrapper, methods] = RESULTS[name];
  const guarded = {};
  for (const [method, result] of Object.entries(methods)) {
    if (typeof own?.[method] !== "function") {
      throw new TypeError(`the export \`${name}\` is ${named(own)}: make it with \`${wrapper}(…)\` of rind-sdk`);
    }
    guarded[method] = (...args) => call(name, own[method].bind(own), args, result);
  }
  return guarded;
}
