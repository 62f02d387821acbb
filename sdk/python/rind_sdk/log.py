# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""The host's log."""
from wit_world.imports.log import *  # noqa: F403
