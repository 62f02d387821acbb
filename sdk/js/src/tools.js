import { atOnce } from "./hook.js";

/** Makes the export `tools` of functions with their descriptions; the key is the name of the tool. */
export function tools(all) {
  return {
    list() {
      return Object.entries(all).map(([name, tool]) => ({
        name,
        description: tool.description,
        parameters: JSON.stringify(tool.parameters),
        effectClass: tool.effect,
      }));
    },
    call(name, args) {
      if (!Object.hasOwn(all, name)) throw { tag: "not-found", val: `there is no tool ${name}` };
      return answer(atOnce(all[name].run(JSON.parse(args))));
    },
  };
}

/** The answer of the contract for a text, an answer, or any other value, which is written as JSON. */
function answer(value) {
  if (typeof value === "string") return { parts: [{ tag: "text", val: value }], isError: false };
  if (Array.isArray(value?.parts)) return { isError: false, ...value };
  return { parts: [{ tag: "json", val: JSON.stringify(value ?? null) }], isError: false };
}
