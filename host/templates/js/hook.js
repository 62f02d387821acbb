// Looks at every tool call before it is made, and refuses those that touch secret files.
//
// The exports of the module are its hooks: the name of an export is its point, here `pre-tool`. Rename the file to .ts, and `main`
// in package.json with it, to write TypeScript. Points, payloads and outcomes: `rind-sdk/types/hooks.d.ts`.
import { hooks, verdict } from "rind-sdk";
// A plugin asks for the imports that it uses, and for no others: `rind plugin inspect .` lists them.
import * as config from "rind-sdk/config";

// Called before each tool call. Instances may be thrown away between two calls: lasting data goes into `rind-sdk/state`.
export const preTool = hooks.preTool((call) => {
  /** @type {{secret: string[]}} Settings of the operator; `[config]` in plugin.toml says which there are. */
  const settings = JSON.parse(config.all());
  const part = settings.secret.find((part) => call.call.arguments.includes(part));
  if (part) return { verdict: verdict.block(`paths with \`${part}\` are secret`) };
});
