// A server by the TypeScript SDK, of its first version (`old`) or its second (`new`), over standard input and output or HTTP.
// Usage: server.mjs old|new [http]. Over HTTP, the first line of output is the address.
import http from "node:http";
import { z } from "zod";

const [version, transport] = process.argv.slice(2);
const isNew = version === "new";
const sdk = "@modelcontextprotocol/sdk/server";
const { McpServer, createMcpHandler, inputRequired, acceptedContent } = await import(isNew ? "@modelcontextprotocol/server" : `${sdk}/mcp.js`);

const answer = (text) => ({ content: [{ type: "text", text }] });

function makeServer() {
  const server = new McpServer({ name: `ts-${version}`, version: "1.0.0" });
  server.registerTool(
    "add",
    {
      description: "Adds two numbers",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
    },
    async ({ a, b }) => ({ content: [{ type: "text", text: `${a + b}` }], structuredContent: { sum: a + b } }),
  );
  server.registerTool("fail", { description: "Fails" }, async () => {
    throw new Error("it failed on purpose");
  });
  server.registerTool("ask", { description: "Asks the person for a name" }, async (context) => {
    const message = "Who is there?";
    if (isNew && context.mcpReq.inputResponses === undefined) {
      const schema = z.object({ name: z.string().default("Ada") });
      return inputRequired({ inputRequests: { who: inputRequired.elicit({ message, requestedSchema: schema }) } });
    }
    if (isNew) {
      const who = acceptedContent(context.mcpReq.inputResponses, "who", z.object({ name: z.string() }));
      return answer(who ? `Hello, ${who.name}!` : "Nobody said a name.");
    }
    const requestedSchema = { type: "object", properties: { name: { type: "string", default: "Ada" } }, required: ["name"] };
    const asked = await server.server.elicitInput({ message, requestedSchema });
    return answer(asked.action === "accept" ? `Hello, ${asked.content.name}!` : "Nobody said a name.");
  });
  server.registerPrompt("review", { description: "Reviews a file", argsSchema: isNew ? z.object({ file: z.string() }) : { file: z.string() } }, ({ file }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Review ${file}.` } }],
  }));
  server.registerResource("note", "demo://note", { mimeType: "text/plain" }, async (uri) => ({ contents: [{ uri: uri.href, text: "a note" }] }));
  return server;
}

async function serveHttp() {
  let handle;
  if (isNew) {
    const handler = createMcpHandler(makeServer);
    handle = async (request, body) => handler.fetch(request, { parsedBody: body });
  }
  const { StreamableHTTPServerTransport } = isNew ? {} : await import(`${sdk}/streamableHttp.js`);
  const sessions = new Map();
  const serving = http.createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    const body = text ? JSON.parse(text) : undefined;
    if (!isNew) {
      let session = sessions.get(request.headers["mcp-session-id"]);
      if (!session) {
        session = new StreamableHTTPServerTransport({
          sessionIdGenerator: () => crypto.randomUUID(),
          onsessioninitialized: (id) => sessions.set(id, session),
        });
        await makeServer().connect(session);
      }
      await session.handleRequest(request, response, body);
      return;
    }
    const made = new Request(`http://${request.headers.host}${request.url}`, {
      method: request.method,
      headers: Object.entries(request.headers).map(([name, value]) => [name, `${value}`]),
      ...(text ? { body: text } : {}),
    });
    const made_answer = await handle(made, body);
    response.writeHead(made_answer.status, Object.fromEntries(made_answer.headers));
    for await (const piece of made_answer.body ?? []) response.write(piece);
    response.end();
  });
  serving.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${serving.address().port}/mcp`));
}

if (transport === "http") {
  await serveHttp();
} else if (isNew) {
  const { serveStdio } = await import("@modelcontextprotocol/server/stdio");
  serveStdio(makeServer);
} else {
  const { StdioServerTransport } = await import(`${sdk}/stdio.js`);
  await makeServer().connect(new StdioServerTransport());
}
