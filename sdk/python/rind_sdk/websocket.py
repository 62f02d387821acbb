# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""WebSocket connections of a loop to the hosts that the plugin was granted."""
from wit_world.imports.websocket import *  # noqa: F403
