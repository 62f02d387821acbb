# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Values that last as long as the session."""
from wit_world.imports.state import *  # noqa: F403
