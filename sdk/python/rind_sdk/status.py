# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""A line of status of the plugin's own, for whoever watches the session: on the screen it stands beside the plugin's name."""
from wit_world.imports.status import *  # noqa: F403
