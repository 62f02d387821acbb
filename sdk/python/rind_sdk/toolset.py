"""The class `Tools` of a plugin, made of functions with their descriptions."""

import json
from typing import Any, Callable

from componentize_py_types import Err
from wit_world.imports import types


class Toolset:
    """Base of the class `Tools`: each function marked with `tool` is one."""

    def _all(self) -> dict[str, Callable[..., Any]]:
        functions = (getattr(self, name) for name in dir(self) if not name.startswith("__"))
        return {function.rind_tool["name"]: function for function in functions if hasattr(function, "rind_tool")}

    def list(self):
        # There only where the plugin exports tools.
        from wit_world.exports.tools import ToolSpec

        return [ToolSpec(**function.rind_tool) for function in self._all().values()]

    def call(self, name: str, arguments: str) -> types.Answer:
        function = self._all().get(name)
        if function is None:
            raise Err(types.Error_NotFound(f"there is no tool {name}"))
        # An exception is a failed call: the component tells of its type, message and place.
        return _answer(name, function(**json.loads(arguments)))


def tool(effect: types.EffectClass, parameters: dict) -> Callable:
    """Marks a function as a tool: its name and its doc string are what the model sees, `parameters` is a JSON Schema."""

    def mark(function: Callable) -> Callable:
        function.rind_tool = {
            "name": function.__name__,
            "description": " ".join((function.__doc__ or "").split()),
            "parameters": json.dumps(parameters),
            "effect_class": effect,
        }
        return function

    return mark


def _answer(name: str, value: Any) -> types.Answer:
    """The answer of the contract for a text, an answer, or any other value, which is written as JSON."""
    if isinstance(value, types.Answer):
        return value
    if isinstance(value, str):
        return types.Answer(parts=[types.AnswerPart_Text(value)], is_error=False)
    try:
        text = json.dumps(value)
    except (TypeError, ValueError) as error:
        kind = type(value).__name__
        raise Err(types.Error_Failed(f"the tool `{name}` returned {kind}, which is not a text, no Answer and not JSON: {error}")) from None
    return types.Answer(parts=[types.AnswerPart_Json(text)], is_error=False)
