# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Waiting in a loop: for a timer, a change of files, a message, or the end of the host."""
from wit_world.imports.waiting import *  # noqa: F403
