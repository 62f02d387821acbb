"""The class `Commands` of a plugin, made of functions with their descriptions."""

import json
from dataclasses import dataclass
from typing import Any, Callable, Optional

from componentize_py_types import Err
from wit_world.imports import types


@dataclass
class Prompt:
    """Outcome of a command that starts a turn with this input."""

    text: str


class Commandset:
    """Base of the class `Commands`: each function marked with `command` is one."""

    def _all(self) -> dict[str, Callable[..., Any]]:
        functions = (getattr(self, name) for name in dir(self) if not name.startswith("__"))
        return {function.rind_command["name"]: function for function in functions if hasattr(function, "rind_command")}

    def list(self):
        # There only where the plugin exports commands.
        from wit_world.exports.commands import CommandSpec

        return [CommandSpec(**function.rind_command) for function in self._all().values()]

    def run(self, name: str, arguments: str):
        function = self._all().get(name)
        if function is None:
            raise Err(types.Error_NotFound(f"there is no command {name}"))
        # An exception is a failed call: the component tells of its type, message and place.
        if function.rind_command["arguments"] is None:
            return _outcome(function(arguments))
        return _outcome(function(**json.loads(arguments)))


def command(arguments: Optional[dict] = None) -> Callable:
    """Marks a function as a slash command: its name, with hyphens, and its doc string are what `/help` shows.

    `arguments` is a JSON Schema; without one, the function takes the text behind the name.
    """

    def mark(function: Callable) -> Callable:
        function.rind_command = {
            "name": function.__name__.replace("_", "-"),
            "description": " ".join((function.__doc__ or "").split()),
            "arguments": None if arguments is None else json.dumps(arguments),
        }
        return function

    return mark


def _outcome(value: Any):
    """The outcome of the contract for a text, a prompt, nothing, or any other value, which is shown as JSON."""
    from wit_world.exports import commands

    if value is None:
        return commands.CommandOutcome_Nothing()
    if isinstance(value, Prompt):
        return commands.CommandOutcome_Prompt(value.text)
    return commands.CommandOutcome_Text(value if isinstance(value, str) else json.dumps(value))
