// Beats like a heart: counts its runs, and asks for the next one after a pause.
//
// The host runs the export `loop` while `rind serve` runs: again after the pause that it asks for, or after a growing
// one when it failed. Rename the file to .ts, and `main` in package.json with it, to write TypeScript. Imports of the host:
// `rind-sdk/types`.
import { again, runLoop } from "rind-sdk";
// A plugin asks for the imports that it uses, and for no others: `rind plugin inspect .` lists them.
import * as config from "rind-sdk/config";
import * as log from "rind-sdk/log";
import * as state from "rind-sdk/state";

// One run. Instances may be thrown away between two of them: lasting data goes into `rind-sdk/state`, or into `rind-sdk/store`
// when it is to outlast the session.
export const loop = runLoop(() => {
  /** @type {{seconds: number}} Settings of the operator; `[config]` in plugin.toml says which there are. */
  const settings = JSON.parse(config.all());
  const beats = Number(state.get("beats") ?? 0) + 1;
  state.set("beats", String(beats));
  log.write("info", `beat ${beats}`);
  // Returning nothing would end it.
  return again(settings.seconds * 1000, `beat ${beats}`);
});
