"""Outcomes of a run of a loop, the class `Loop` of a plugin."""


def again(after_ms: int, reason: str):
    """Asks for another run after this many milliseconds."""
    # There only where the plugin exports a loop.
    from wit_world.exports.loop import LoopOutcome_Again, NextRun

    return LoopOutcome_Again(NextRun(after_ms=after_ms, reason=reason))


def done():
    """Says that nothing is left to do."""
    from wit_world.exports.loop import LoopOutcome_Done

    return LoopOutcome_Done()
