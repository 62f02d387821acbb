// Stores what it is shown. Its component of each released version of the contract is kept beside this folder, and every later
// host must run it as it is.
import { hooks, tools as offer } from "rind-sdk";
import * as caller from "rind-sdk/caller";
import * as state from "rind-sdk/state";

export const tools = offer({
  kept: {
    description: "Says what was kept.",
    effect: "read",
    parameters: { type: "object", properties: {}, additionalProperties: false },
    run() {
      state.set("tool", "called");
      return `kept in turn ${caller.turn()}: ${state.keys("").join()}`;
    },
  },
});

export const postTool = hooks.postTool((finished) => {
  const { name } = finished.call();
  return store("post-tool", `${name}: ${finished.part(0).val}`);
});

export const preOutput = hooks.preOutput((output) => ({
  text: `${output}, read by the old`,
  ...store("pre-output", output),
}));

export const postOutput = hooks.postOutput((output) => store("post-output", output));

export const turnEnd = hooks.turnEnd((turn) => store("turn-end", `${turn.stop} after ${turn.toolCalls} calls`));

function store(key, value) {
  return { effects: [{ tag: "store", val: { key, value } }] };
}
