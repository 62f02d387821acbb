// Offers the model a tool that counts the words of a text.
//
// The exports of the module are its hooks and tools. Rename the file to .ts, and `main` in package.json with it, to write
// TypeScript. Points and imports of the host: `rind-sdk/types`.
import { tools as offer } from "rind-sdk";

export const tools = offer({
  count_words: {
    description: "Counts the words of a text. Use it when somebody asks how long a text is.",
    effect: "read",
    // JSON Schema of the arguments; the host checks them before it calls.
    parameters: {
      type: "object",
      properties: { text: { type: "string", description: "The text to count in." } },
      required: ["text"],
      additionalProperties: false,
    },
    run: ({ text }) => `${text.split(/\s+/).filter(Boolean).length} words`,
  },
});
