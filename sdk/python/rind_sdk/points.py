# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Calling extension points that plugins define."""
from wit_world.imports.points import *  # noqa: F403
