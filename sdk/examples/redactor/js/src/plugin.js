// Masks card numbers and the values of passwords and tokens, in tool results before the model reads them and in the output.
import { hooks, text } from "rind-sdk";
import * as config from "rind-sdk/config";

/** Text in the place of what is masked. */
const MASKED = "[masked]";

/** Card numbers as people write them. A check digit decides which of them are. */
const CARD = /\b(?:[0-9]{13,19}|[0-9]{4}(?:[ -][0-9]{4}){3}|[0-9]{4}[ -][0-9]{6}[ -][0-9]{5})\b/g;

export const postTool = hooks.postTool((finished) => {
  const masks = new Masks();
  const content = [];
  for (let index = 0; index < finished.len(); index++) {
    const part = finished.part(index);
    const masked = part.tag === "blob" ? null : masks.apply(part.val);
    // What is masked in a value may leave no JSON, so it continues as text.
    content.push(masked === null ? part : text(masked));
  }
  if (masks.count > 0) return { content, effects: [masks.metric()] };
});

export const preOutput = hooks.preOutput((output) => {
  const masks = new Masks();
  const masked = masks.apply(output);
  if (masked !== null) return { text: masked, effects: [masks.metric()] };
});

/** Patterns of what is masked, and how often that was done. */
class Masks {
  count = 0;

  constructor() {
    const names = JSON.parse(config.all()).names.join("|");
    this.value = new RegExp(`((?:${names})["']?[ \\t]*[:=][ \\t]*["']?)([^ \\t\\r\\n"',;]+)`, "gi");
  }

  /** The text with masks; null when there is nothing to mask. */
  apply(text) {
    const before = this.count;
    const masked = text
      .replace(this.value, (_, name, value) => {
        if (value !== MASKED) this.count++;
        return name + MASKED;
      })
      .replace(CARD, (found) => {
        if (!isCard(found)) return found;
        this.count++;
        return MASKED;
      });
    return this.count > before ? masked : null;
  }

  metric() {
    return { tag: "metric", val: { name: "redactor.masked", value: this.count } };
  }
}

/** Whether the last digit is the check digit of the others (Luhn). */
function isCard(text) {
  const digits = text.replace(/[^0-9]/g, "").split("").reverse().map(Number);
  const sum = digits.reduce((sum, digit, place) => {
    const times = digit * (1 + (place % 2));
    return sum + (times > 9 ? times - 9 : times);
  }, 0);
  return sum % 10 === 0;
}
