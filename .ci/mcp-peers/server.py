"""A server by the Python SDK, of its first or second version, over standard input and output or HTTP.

Usage: server.py [http]. Over HTTP, the first line of output is the address."""

import socket
import sys
from typing import Annotated

from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve

    IS_NEW = True
except ImportError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer

    IS_NEW = False


class Who(BaseModel):
    """The answer of the person."""

    name: str = "Ada"


server = MCPServer("py")


@server.tool()
def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("it failed on purpose")


def greeting(asked) -> str:
    return f"Hello, {asked.data.name}!" if asked.action == "accept" else "Nobody said a name."


if IS_NEW:

    def who() -> Elicit[Who]:
        return Elicit("Who is there?", Who)

    @server.tool()
    def ask(asked: Annotated[ElicitationResult[Who], Resolve(who)]) -> str:
        """Asks the person for a name."""
        return greeting(asked)

else:

    @server.tool()
    async def ask(context: Context) -> str:
        """Asks the person for a name."""
        return greeting(await context.elicit("Who is there?", Who))


@server.prompt()
def review(file: str) -> str:
    """Reviews a file."""
    return f"Review {file}."


@server.resource("demo://note")
def note() -> str:
    """A note."""
    return "a note"


if sys.argv[1:] == ["http"]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    if IS_NEW:
        server.run("streamable-http", host="127.0.0.1", port=port)
    else:
        server.settings.port = port
        server.run("streamable-http")
else:
    server.run()
