"""Offers the person a slash command that makes a prompt: `/explain`.

The classes of this module are its hooks, tools and commands. Points and imports of the host: `.rind-sdk/python/stubs/wit_world`.
"""

from rind_sdk.commandset import Commandset, Prompt, command

# JSON Schema of the arguments; the host reads them from the line.
ARGUMENTS = {
    "type": "object",
    "properties": {
        "topic": {"type": "string", "description": "Topic to explain."},
        "reader": {"type": "string", "enum": ["child", "expert"], "description": "Reader that it is for."},
    },
    "required": ["topic"],
    "additionalProperties": False,
}


class Commands(Commandset):
    @command(ARGUMENTS)
    def explain(self, topic: str, reader: str = "expert") -> Prompt:
        """Asks for a short explanation."""
        whom = "a child" if reader == "child" else "an expert"
        return Prompt(f"Explain {topic} to {whom} in three sentences.")
