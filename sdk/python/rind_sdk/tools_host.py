# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Calling other tools."""
from wit_world.imports.tools_host import *  # noqa: F403
