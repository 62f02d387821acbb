// Offers the person a slash command that makes a prompt: `/explain`.
//
// The exports of the module are its hooks, tools and commands. Rename the file to .ts, and `main` in package.json with it, to
// write TypeScript. Points and imports of the host: `rind-sdk/types`.
import { commands as offer, prompt } from "rind-sdk";

export const commands = offer({
  explain: {
    description: "Asks for a short explanation.",
    // JSON Schema of the arguments; the host reads them from the line. Without one, `run` takes the text behind the name.
    arguments: {
      type: "object",
      properties: {
        topic: { type: "string", description: "Topic to explain." },
        reader: { type: "string", enum: ["child", "expert"], description: "Reader that it is for." },
      },
      required: ["topic"],
      additionalProperties: false,
    },
    // Text is shown to the person, and `prompt` starts a turn.
    run: ({ topic, reader = "expert" }) => {
      const whom = reader === "child" ? "a child" : "an expert";
      return prompt(`Explain ${topic} to ${whom} in three sentences.`);
    },
  },
});
