// Compares values with the contract, written by `rind plugin build`: what the plugin returns, and what it gives to functions of the
// host. The engine would turn a wrong value into another one, or end the component.
const SHAPES = {{shapes}};
const METHODS = {{methods}};
const RANGES = { u8: 2 ** 8 - 1, u16: 2 ** 16 - 1, u32: 2 ** 32 - 1, u64: Number.MAX_SAFE_INTEGER };

/** A value in a few words. */
export function named(value) {
  if (value === undefined || value === null) return String(value);
  if (typeof value === "function") return "a function";
  if (typeof value?.then === "function") return "a promise";
  let text;
  try {
    text = typeof value === "bigint" ? `${value}n` : JSON.stringify(value);
  } catch {
    text = undefined;
  }
  return text === undefined || text.length > 60 ? `a value of type ${typeof value}` : text;
}

/** Letters in which two names differ. */
function distance(one, other) {
  const row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let at = 0; at < one.length; at++) {
    let before = row[0];
    row[0] = at + 1;
    for (let to = 0; to < other.length; to++) {
      const least = Math.min(row[to + 1] + 1, row[to] + 1, before + (one[at].toLowerCase() === other[to].toLowerCase() ? 0 : 1));
      before = row[to + 1];
      row[to + 1] = least;
    }
  }
  return row[other.length];
}

/** Ends a message about a name that is not known. */
function instead(name, known) {
  const sorted = known.map((other) => [distance(name, other), other]).sort((a, b) => a[0] - b[0]);
  const near = sorted[0]?.[0] <= Math.max(1, Math.floor(name.length / 4)) ? sorted[0][1] : undefined;
  return near === undefined ? `: it has ${known.join(", ")}` : `; did you mean \`${near}\`?`;
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function plainFault(ty, value) {
  if (ty === "string") {
    if (typeof value !== "string") return `${named(value)} is not a text`;
    return /[\uD800-\uDFFF]/u.test(value) ? "the text holds half of a character, which is no UTF-8" : undefined;
  }
  if (ty === "bool") return typeof value === "boolean" ? undefined : `${named(value)} is neither true nor false`;
  if (typeof value === "bigint" && ty !== "u64") return `${named(value)} is a bigint where a number is wanted; \`Number(…)\` makes it one`;
  if (!(ty in RANGES)) return typeof value === "number" ? undefined : `${named(value)} is no number`;
  if (typeof value !== "bigint" && !Number.isInteger(value)) return `${named(value)} is no whole number`;
  return value >= 0 && value <= RANGES[ty] ? undefined : `${value} does not fit: it is 0 to ${RANGES[ty]}`;
}

function bytesFault(value) {
  if (value instanceof Uint8Array) return undefined;
  const isByte = (item) => Number.isInteger(item) && item >= 0 && item <= 255;
  return Array.isArray(value) && value.every(isByte) ? undefined : `${named(value)} is no Uint8Array`;
}

/** What does not fit the type, with its place; undefined when all fits. */
export function fault(place, ty, value) {
  const at = (text) => text && (place ? `${place}: ${text}` : text);
  if (ty.option) return value === undefined || value === null ? undefined : fault(place, ty.option, value);
  if (ty.list === "u8") return at(bytesFault(value));
  if (ty.list) {
    if (!Array.isArray(value)) return at(`${named(value)} is no array`);
    for (let n = 0; n < value.length; n++) {
      const found = fault(`${place}[${n}]`, ty.list, value[n]);
      if (found) return found;
    }
    return undefined;
  }
  const shape = SHAPES[ty];
  return shape ? shapeFault(place, at, shape, value) : at(plainFault(ty, value));
}

function shapeFault(place, at, [kind, name, parts], value) {
  if (kind === "enum") return parts.includes(value) ? undefined : at(`${named(value)} is none of ${parts.join(", ")}`);
  if (!isObject(value) || typeof value.then === "function") {
    const example = kind === "variant" ? `{ tag: "${Object.keys(parts)[0]}" }` : `{ ${Object.keys(parts).join(", ")} }`;
    return at(`${named(value)} is no ${name}, which is an object such as ${example}`);
  }
  if (kind === "record") {
    for (const field of Object.keys(value)) {
      if (!Object.hasOwn(parts, field)) return at(`there is no field \`${field}\`${instead(field, Object.keys(parts))}`);
    }
    for (const [field, ty] of Object.entries(parts)) {
      const found = fault(place ? `${place}.${field}` : field, ty, value[field]);
      if (found) return found;
    }
    return undefined;
  }
  for (const field of Object.keys(value)) {
    if (field !== "tag" && field !== "val") return at(`${name} is { tag, val }, and there is no field \`${field}\``);
  }
  if (typeof value.tag !== "string") return at(`${name} has a \`tag\`, one of ${Object.keys(parts).join(", ")}; it is ${named(value.tag)}`);
  if (!Object.hasOwn(parts, value.tag)) return at(`there is no \`tag\` "${value.tag}"${instead(value.tag, Object.keys(parts))}`);
  const ty = parts[value.tag];
  if (ty === null) return value.val === undefined ? undefined : at(`"${value.tag}" has no \`val\``);
  return fault(`${place ? `${place}.` : ""}${value.tag}`, ty, value.val);
}

/** The value with numbers where the engine takes no bigint. */
export function plainNumbers(value) {
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(plainNumbers);
  if (!isObject(value) || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plainNumbers(item)]));
}

/** A function of the host that throws where an argument is not what its parameter takes. */
export function checked(name, parameters, run) {
  return function (...given) {
    const args = parameters.map(([parameter, ty], at) => {
      const found = fault(parameter, ty, given[at]);
      if (found) throw new TypeError(`\`${name}\` does not take this: ${found}`);
      return plainNumbers(given[at]);
    });
    return run.apply(this, args);
  };
}

const seen = new Set();

/** Has the methods of a handle that the host lends throw where an argument is not what they take. */
export function checkHandle(value) {
  const own = isObject(value) ? Object.getPrototypeOf(value) : Object.prototype;
  if (own === Object.prototype || own === null || seen.has(own)) return;
  seen.add(own);
  for (const [name, parameters] of Object.entries(METHODS)) {
    if (typeof own[name] === "function") own[name] = checked(name, parameters, own[name]);
  }
}
