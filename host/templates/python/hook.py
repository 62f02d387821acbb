"""Looks at every tool call before it is made, and refuses those that touch secret files.

The classes of this module are its hooks: the name of a class is its point, here `pre-tool`. Points, payloads and outcomes:
`.rind-sdk/python/stubs/wit_world`.
"""

import json

from rind_sdk import outcome

# A plugin asks for the imports that it uses, and for no others: `rind plugin inspect .` lists them.
from rind_sdk import config
from wit_world.imports import outcomes, payloads


class PreTool:
    """Called before each tool call. Instances may be thrown away between two calls: lasting data goes into `state`."""

    def run(self, payload: payloads.ProposedCall) -> outcomes.CallOutcome:
        settings = json.loads(config.all())
        for part in settings["secret"]:
            if part in payload.call.arguments:
                return outcome.call(verdict=outcomes.CallVerdict_Block(f"paths with `{part}` are secret"))
        return outcome.call()
