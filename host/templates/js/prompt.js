// Adds a part to the system prompt.
//
// The exports of the module are its hooks: the name of an export is its point, here `system-prompt`, where every plugin contributes
// parts. A part of the tier `stable` stays the same for the whole session, so that the provider's prompt cache holds; `volatile`
// parts are for text that changes with each turn.
import { hooks } from "rind-sdk";
import * as config from "rind-sdk/config";

export const systemPrompt = hooks.systemPrompt(() => {
  /** @type {{text: string}} Settings of the operator; `[config]` in plugin.toml says which there are. */
  const settings = JSON.parse(config.all());
  // The host fills in the source.
  return { parts: [{ tier: "stable", key: "house-rules", source: "", text: settings.text }] };
});
