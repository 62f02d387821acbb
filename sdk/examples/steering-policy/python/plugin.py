"""Steers tool calls by what is called, and by who calls: the import `caller` says which agent it is and what its turn has done."""

import json

from rind_sdk import caller, config, outcome
from wit_world.imports import outcomes, payloads, types


class PreTool:
    def run(self, payload: payloads.ProposedCall) -> outcomes.CallOutcome:
        settings = json.loads(config.all())
        call, reads = payload.call, payload.effect_class == types.EffectClass.READ
        if caller.depth() > 0 and not reads:
            return block(f"subagents only read; tell in your answer what {call.name} should do")
        args = json.loads(call.arguments)
        path = args["path"] if isinstance(args.get("path"), str) else ""
        if not reads and path.startswith(tuple(settings["generated"])):
            return block(f"`{path}` is generated; change what it is made from")
        calls = caller.tool_calls()
        if calls >= settings["calls"]:
            reason = f"the turn has already made {calls} of {settings['calls']} calls"
            return outcome.call(verdict=outcomes.CallVerdict_Ask(reason))
        if call.name == "read_file" and "limit" not in args:
            note = f"{settings['lines']} lines were read; `limit` and `offset` read others"
            changed = json.dumps({**args, "limit": settings["lines"]})
            return outcome.call(verdict=outcomes.CallVerdict_Change(changed), note=note)
        return outcome.call()


def block(reason: str) -> outcomes.CallOutcome:
    return outcome.call(verdict=outcomes.CallVerdict_Block(reason))
