"""A client by the Python SDK, of its first or second version, against `rind mcp serve`.

Usage: client.py legacy|auto stdio COMMAND ARGS... | client.py legacy|auto http ADDRESS TOKEN. It prints one object with what it got."""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

import mcp

MODE, TRANSPORT, *REST = sys.argv[1:]
IS_NEW = hasattr(mcp, "Client")


async def elicited(_context, params):
    schema = params.requested_schema if IS_NEW else params.requestedSchema
    schema = schema if isinstance(schema, dict) else schema.model_dump()
    name, field = next(iter(schema["properties"].items()))
    value = True if field["type"] == "boolean" else "Ada"
    return mcp.types.ElicitResult(action="accept", content={name: value})


async def connect(stack):
    """Returns the client, and the version that was agreed."""
    env = {name: os.environ.get(name, "") for name in ("HOME", "PATH", "RIND_HOME", "LANG")}
    stdio = mcp.StdioServerParameters(command=REST[0], args=REST[1:], env=env) if TRANSPORT == "stdio" else None
    headers = {} if stdio else {"Authorization": f"Bearer {REST[1]}"}
    if IS_NEW:
        from mcp.client.streamable_http import streamable_http_client
        import httpx2

        server = stdio or streamable_http_client(REST[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))
        client = await stack.enter_async_context(mcp.Client(server, mode=MODE, elicitation_callback=elicited))
        return client, client.session.protocol_version
    from mcp.client.streamable_http import streamablehttp_client

    opened = mcp.stdio_client(stdio) if stdio else streamablehttp_client(REST[0], headers=headers)
    streams = await stack.enter_async_context(opened)
    session = await stack.enter_async_context(mcp.ClientSession(streams[0], streams[1], elicitation_callback=elicited))
    return session, (await session.initialize()).protocolVersion


async def main():
    async with AsyncExitStack() as stack:
        client, version = await connect(stack)

        async def call(name, **more):
            result = await client.call_tool(name, {}, **more)
            is_error = result.is_error if IS_NEW else result.isError
            return {"text": " ".join(getattr(part, "text", part.type) for part in result.content), "isError": bool(is_error)}

        steps = []

        async def told(*_):
            steps.append(1)

        progress = await call("test_tool_with_progress", progress_callback=told)
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        reference = mcp.types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        completed = await client.complete(reference, {"name": "tone", "value": "sh"})
        found = {
            "version": version,
            "tools": len((await client.list_tools()).tools),
            "text": await call("test_simple_text"),
            "mixed": await call("test_multiple_content_types"),
            "error": await call("test_error_handling"),
            "asked": await call("test_input_required_result_elicitation"),
            "twice": await call("test_input_required_result_multi_round"),
            "progress": f"{progress['text']} {len(steps)}",
            "prompt": prompt.messages[0].content.text.strip(),
            "completed": completed.completion.values,
            "resources": [str(own.uri) for own in (await client.list_resources()).resources],
        }
        print(json.dumps(found), flush=True)


asyncio.run(main())
