# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""The conversation so far."""
from wit_world.imports.session import *  # noqa: F403
