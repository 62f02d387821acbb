# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""HTTP requests to the hosts that the plugin was granted."""
from wit_world.imports.http import *  # noqa: F403
