"""Stores what it is shown. Its component of each released version of the contract is kept beside this folder, and every later
host must run it as it is."""

from rind_sdk import caller, outcome, state
from rind_sdk.toolset import Toolset, tool
from wit_world.imports import handles, outcomes, payloads, types


class Tools(Toolset):
    @tool(types.EffectClass.READ, {"type": "object", "properties": {}, "additionalProperties": False})
    def kept(self) -> str:
        """Says what was kept."""
        state.set("tool", "called")
        return f"kept in turn {caller.turn()}: {','.join(state.keys(''))}"


class PostTool:
    def run(self, payload: handles.FinishedCall) -> outcomes.ResultOutcome:
        return outcome.result(effects=store("post-tool", f"{payload.call().name}: {payload.part(0).value}"))


class PreOutput:
    def run(self, payload: str) -> outcomes.OutputOutcome:
        return outcome.output(text=f"{payload}, read by the old", effects=store("pre-output", payload))


class PostOutput:
    def run(self, payload: str) -> outcomes.Observed:
        return outcome.observed(effects=store("post-output", payload))


class TurnEnd:
    def run(self, payload: payloads.TurnSummary) -> outcomes.Observed:
        said = f"{payload.stop.name.lower()} after {payload.tool_calls} calls"
        return outcome.observed(effects=store("turn-end", said))


def store(key: str, value: str) -> list[types.Effect]:
    return [types.Effect_Store(types.Stored(key=key, value=value))]
