"""Beats like a heart: counts its runs, and asks for the next one after a pause.

The host runs the class `Loop` of this module while `rind serve` runs: again after the pause that it asks for, or after a growing one
when it failed. Imports of the host: `.rind-sdk/python/stubs/wit_world`.
"""

import json

# A plugin asks for the imports that it uses, and for no others: `rind plugin inspect .` lists them.
from rind_sdk import config, log, state
from rind_sdk.run_loop import again
from wit_world.imports import types


class Loop:
    """Instances may be thrown away between two runs: lasting data goes into `state`, or into `store` when it is to outlast the session."""

    def run(self):
        settings = json.loads(config.all())
        beats = int(state.get("beats") or 0) + 1
        state.set("beats", str(beats))
        log.write(types.Level.INFO, f"beat {beats}")
        # `done()` of the same module would end it.
        return again(settings["seconds"] * 1000, f"beat {beats}")
