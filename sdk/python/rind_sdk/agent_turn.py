# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Primitives of the turn that a loop runs."""
from wit_world.imports.agent_turn import *  # noqa: F403
