# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Running subagents."""
from wit_world.imports.agents import *  # noqa: F403
