# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Files in the folders that the plugin was granted."""
from wit_world.imports.files import *  # noqa: F403
