# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Caller of the hook, tool, command or implementation that runs."""
from wit_world.imports.caller import *  # noqa: F403
