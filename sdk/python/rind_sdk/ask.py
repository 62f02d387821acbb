# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Questions to the person at the terminal."""
from wit_world.imports.ask import *  # noqa: F403
