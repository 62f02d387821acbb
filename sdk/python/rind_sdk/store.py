# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Values that last as long as the plugin is installed, across sessions."""
from wit_world.imports.store import *  # noqa: F403
