# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Bytes of content that is not text, such as images."""
from wit_world.imports.blobs import *  # noqa: F403
