function sessionOf(ctx: any): string {
  return String(ctx?.sessionManager?.getSessionId?.() ?? `process-${process.pid}`);
}

export default function (pi: any) {
  pi.on("tool_call", async (event: any, ctx: any) => {
    try {
      const answer: any = await ask("pre-tool", {
        session: sessionOf(ctx),
        folder: ctx.cwd,
        id: event.toolCallId,
        tool: event.toolName,
        args: event.input,
      });
      if (answer.ask) {
        const isAllowed = ctx.hasUI && (await ctx.ui.confirm("Rind guard", answer.ask));
        if (isAllowed !== true) return { block: true, reason: `${answer.ask} (the user did not allow it)` };
      }
      if (answer.args) replaceFields(event.input, answer.args);
    } catch (error: any) {
      return { block: true, reason: error.message };
    }
  });

  pi.on("tool_result", async (event: any, ctx: any) => {
    const parts = Array.isArray(event.content) ? event.content : [];
    const texts = parts.filter((part: any) => part.type === "text").map((part: any) => part.text);
    let masked = [...texts];
    try {
      const answer: any = await ask("post-tool", {
        session: sessionOf(ctx),
        folder: ctx.cwd,
        id: event.toolCallId,
        tool: event.toolName,
        args: event.input ?? {},
        texts,
        failed: event.isError === true,
      });
      if (answer.texts) masked = answer.texts;
      if (masked.length > 0) masked[masked.length - 1] += notesText(answer);
    } catch (error: any) {
      masked = texts.map(() => `[the result was withheld: ${error.message}]`);
    }
    if (masked.every((text: string, at: number) => text === texts[at])) return;
    let at = 0;
    const content = parts.map((part: any) => (part.type === "text" ? { ...part, text: masked[at++] ?? "" } : part));
    // The structured form and the details have the same text once more. Without a value the old one
    // would stay.
    const emptied: any = { content };
    for (const key of ["details", "structuredContent"]) if (event[key] !== undefined) emptied[key] = {};
    return emptied;
  });

  pi.on("input", async (event: any, ctx: any) => {
    if (!event.text) return;
    try {
      const answer: any = await ask("turn-start", { session: sessionOf(ctx), folder: ctx.cwd, prompt: event.text });
      if (typeof answer.prompt === "string") return { action: "transform", text: answer.prompt, images: event.images };
    } catch (error: any) {
      ctx.ui?.notify?.(error.message, "error");
      return { action: "handled" };
    }
  });
}
