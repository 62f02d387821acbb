// Notes of plugins about a call, until its result is there.
const notes = new Map();

export const RindGuard = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const answer = await ask("pre-tool", {
      session: input.sessionID,
      folder: directory,
      id: input.callID,
      tool: input.tool,
      args: output.args,
    });
    if (answer.ask) throw new Error(answer.ask);
    if (answer.args) replaceFields(output.args, answer.args);
    if (answer.notes) notes.set(input.callID, notesText(answer));
  },
  "tool.execute.after": async (input, output) => {
    const told = notes.get(input.callID) ?? "";
    notes.delete(input.callID);
    const isText = typeof output.output === "string";
    // The objects that hold a text: a part itself, or the resource in it, which OpenCode shows too.
    const parts = (Array.isArray(output.content) ? output.content : [])
      .map((part) => (part.type === "resource" ? part.resource : part))
      .filter((part) => typeof part?.text === "string");
    const texts = isText ? [output.output] : parts.map((part) => part.text);
    let masked = [...texts];
    let isChanged = false;
    try {
      const answer = await ask("post-tool", {
        session: input.sessionID,
        folder: directory,
        id: input.callID,
        tool: input.tool,
        args: input.args ?? {},
        texts,
      });
      isChanged = Array.isArray(answer.texts);
      if (isChanged) masked = answer.texts;
      if (masked.length > 0) masked[masked.length - 1] += told + notesText(answer);
    } catch (error) {
      isChanged = true;
      masked = texts.map(() => `[the result was withheld: ${error.message}]`);
    }
    if (isText) output.output = masked[0] ?? "";
    parts.forEach((part, at) => (part.text = masked[at] ?? ""));
    // The same text once more, for the screen.
    if (isChanged) {
      for (const key of ["output", "preview", "display"]) delete output.metadata?.[key];
    }
  },
  "chat.message": async (input, output) => {
    for (const part of output.parts.filter((part) => part.type === "text" && part.text && !part.synthetic)) {
      const answer = await ask("turn-start", { session: input.sessionID, folder: directory, prompt: part.text });
      if (typeof answer.prompt === "string") part.text = answer.prompt;
      part.text += notesText(answer);
    }
  },
});
