"""Offers the model a tool that counts the words of a text.

The classes of this module are its hooks and tools. Points and imports of the host: `.rind-sdk/python/stubs/wit_world`.
"""

from rind_sdk.toolset import Toolset, tool
from wit_world.imports import types

# JSON Schema of the arguments; the host checks them before it calls.
PARAMETERS = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The text to count in."}},
    "required": ["text"],
    "additionalProperties": False,
}


class Tools(Toolset):
    @tool(types.EffectClass.READ, PARAMETERS)
    def count_words(self, text: str) -> str:
        """Counts the words of a text. Use it when somebody asks how long a text is."""
        return f"{len(text.split())} words"
