// Steers tool calls by what is called, and by who calls: the import `caller` says which agent it is and what its turn has done.
import { hooks, verdict } from "rind-sdk";
import * as caller from "rind-sdk/caller";
import * as config from "rind-sdk/config";

export const preTool = hooks.preTool(({ call, effectClass }) => {
  /** @type {{generated: string[], lines: number, calls: number}} */
  const settings = JSON.parse(config.all());
  const reads = effectClass === "read";
  if (caller.depth() > 0 && !reads) {
    return { verdict: verdict.block(`subagents only read; tell in your answer what ${call.name} should do`) };
  }
  const args = JSON.parse(call.arguments);
  const path = typeof args.path === "string" ? args.path : "";
  if (!reads && settings.generated.some((start) => path.startsWith(start))) {
    return { verdict: verdict.block(`\`${path}\` is generated; change what it is made from`) };
  }
  const calls = caller.toolCalls();
  if (calls >= settings.calls) return { verdict: verdict.ask(`the turn has already made ${calls} of ${settings.calls} calls`) };
  if (call.name === "read_file" && !("limit" in args)) {
    const note = `${settings.lines} lines were read; \`limit\` and \`offset\` read others`;
    return { verdict: verdict.change({ ...args, limit: settings.lines }), note };
  }
});
