# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""The operator's settings for this plugin."""
from wit_world.imports.config import *  # noqa: F403
