# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Programs that a shell command starts, as the rules of `[tools]` read it."""
from wit_world.imports.shell import *  # noqa: F403
