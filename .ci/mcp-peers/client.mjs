// A client by the TypeScript SDK, of its first version (`old`) or its second (`new`), against `rind mcp serve`.
// Usage: client.mjs old|new legacy|auto stdio COMMAND ARGS... | client.mjs old|new legacy|auto http ADDRESS TOKEN
// It prints one object with what it got.
const [version, mode, transport, ...rest] = process.argv.slice(2);
const isNew = version === "new";
const sdk = "@modelcontextprotocol/sdk";
const { Client } = await import(isNew ? "@modelcontextprotocol/client" : `${sdk}/client/index.js`);
const { StdioClientTransport } = await import(isNew ? "@modelcontextprotocol/client/stdio" : `${sdk}/client/stdio.js`);
const { StreamableHTTPClientTransport } = await import(isNew ? "@modelcontextprotocol/client" : `${sdk}/client/streamableHttp.js`);

function makeTransport() {
  if (transport === "stdio") {
    const env = Object.fromEntries(["HOME", "PATH", "RIND_HOME", "LANG"].map((name) => [name, process.env[name] ?? ""]));
    return new StdioClientTransport({ command: rest[0], args: rest.slice(1), env });
  }
  return new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } } });
}

const options = { capabilities: { elicitation: { form: {} } } };
const client = new Client({ name: `ts-${version}`, version: "1.0.0" }, isNew ? { ...options, versionNegotiation: { mode } } : options);
const onElicit = async (request) => {
  const [field] = Object.entries(request.params.requestedSchema.properties);
  return { action: "accept", content: { [field[0]]: field[1].type === "boolean" ? true : "Ada" } };
};
if (isNew) {
  client.setRequestHandler("elicitation/create", onElicit);
} else {
  const { ElicitRequestSchema } = await import(`${sdk}/types.js`);
  client.setRequestHandler(ElicitRequestSchema, onElicit);
}
await client.connect(makeTransport());
const call = async (name, args = {}) => {
  const result = await client.callTool({ name, arguments: args });
  return { text: result.content.map((part) => part.text ?? part.type).join(" "), isError: result.isError === true };
};
let steps = 0;
const progress = await client.callTool({ name: "test_tool_with_progress", arguments: {} }, ...(isNew ? [] : [undefined]), { onprogress: () => (steps += 1) });
const found = {
  version: client.getNegotiatedProtocolVersion?.() ?? null,
  tools: (await client.listTools()).tools.length,
  text: await call("test_simple_text"),
  mixed: await call("test_multiple_content_types"),
  error: await call("test_error_handling"),
  asked: await call("test_input_required_result_elicitation"),
  twice: await call("test_input_required_result_multi_round"),
  progress: `${progress.content[0].text} ${steps}`,
  prompt: (await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "x", arg2: "y" } })).messages[0].content.text.trim(),
  completed: (await client.complete({ ref: { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument: { name: "tone", value: "sh" } })).completion.values,
  resources: (await client.listResources()).resources.map((own) => own.uri),
};
if (isNew) {
  const { SkillsClient } = await import("@modelcontextprotocol/client/ext/skills");
  const skills = new SkillsClient(client);
  const { skills: entries } = await skills.list();
  const file = await skills.read(entries[0], "example.txt");
  await skills.read(entries[0]);
  found.skill = `${entries[0].uri} ${file.verified}`;
}
console.log(JSON.stringify(found));
await client.close();
process.exit(0);
