import { atOnce } from "./hook.js";

/** Makes the export `commands` of functions with their descriptions; the key is the name of the command, without the slash. */
export function commands(all) {
  return {
    list() {
      return Object.entries(all).map(([name, command]) => ({
        name,
        description: command.description,
        arguments: command.arguments && JSON.stringify(command.arguments),
      }));
    },
    run(name, args) {
      if (!Object.hasOwn(all, name)) throw { tag: "not-found", val: `there is no command ${name}` };
      const command = all[name];
      return outcome(atOnce(command.run(command.arguments ? JSON.parse(args) : args)));
    },
  };
}

/** Starts a turn with this input. */
export function prompt(text) {
  return { tag: "prompt", val: text };
}

/** The outcome of the contract for a text, an outcome, nothing, or any other value, which is shown as JSON. */
function outcome(value) {
  if (value === undefined || value === null) return { tag: "nothing" };
  if (typeof value === "string") return { tag: "text", val: value };
  if (typeof value.tag === "string") return value;
  return { tag: "text", val: JSON.stringify(value) };
}
