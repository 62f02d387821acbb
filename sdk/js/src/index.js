// A thin wrapper over the contract. Imports of the host have modules of their own, such as "rind-sdk/log": what a plugin does not
// import it does not ask for.
export { hooks } from "./hooks.js";
export { tools } from "./tools.js";
export { commands, prompt } from "./commands.js";
export { again, runLoop } from "./run-loop.js";
export { asError } from "./hook.js";
export { verdict, text, utf8 } from "./values.js";
