# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Questions to a model."""
from wit_world.imports.model import *  # noqa: F403
