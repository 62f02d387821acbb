# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Running turns of the agent, in sessions that the loop names."""
from wit_world.imports.turns import *  # noqa: F403
