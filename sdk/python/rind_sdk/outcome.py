# Generated from wit/ by `RIND_BLESS=1 cargo test -p rind-tests tidy`; not to be changed by hand.
"""Outcomes of hooks. Fields that are left out change nothing."""

from wit_world.imports import outcomes as _outcomes


def observed(effects=None) -> _outcomes.Observed:
    """Outcome of a hook that only observes."""
    return _outcomes.Observed(
        effects=[] if effects is None else effects,
    )


def input(text=None, inject=None, block=None, effects=None) -> _outcomes.InputOutcome:
    """Outcome of a hook on incoming text."""
    return _outcomes.InputOutcome(
        text=text,
        inject=[] if inject is None else inject,
        block=block,
        effects=[] if effects is None else effects,
    )


def assessment(assessment=None, effects=None) -> _outcomes.AssessmentOutcome:
    """Outcome of a hook on the assessment."""
    return _outcomes.AssessmentOutcome(
        assessment=assessment,
        effects=[] if effects is None else effects,
    )


def prompt(parts=None, effects=None) -> _outcomes.PromptOutcome:
    """Outcome of a hook that contributes to the system prompt."""
    return _outcomes.PromptOutcome(
        parts=[] if parts is None else parts,
        effects=[] if effects is None else effects,
    )


def parts(put=None, remove=None, effects=None) -> _outcomes.PartsOutcome:
    """Outcome of a hook that edits the parts of the system prompt."""
    return _outcomes.PartsOutcome(
        put=[] if put is None else put,
        remove=[] if remove is None else remove,
        effects=[] if effects is None else effects,
    )


def text(text=None, effects=None) -> _outcomes.TextOutcome:
    """Outcome of a hook that may change one text and nothing else."""
    return _outcomes.TextOutcome(
        text=text,
        effects=[] if effects is None else effects,
    )


def context(edits=None, effects=None) -> _outcomes.ContextOutcome:
    """Outcome of a hook on the messages of one request."""
    return _outcomes.ContextOutcome(
        edits=[] if edits is None else edits,
        effects=[] if effects is None else effects,
    )


def request(model=None, temperature=None, max_tokens=None, tools=None, inject=None, block=None, effects=None) -> _outcomes.RequestOutcome:
    """Outcome of a hook on a request to the model."""
    return _outcomes.RequestOutcome(
        model=model,
        temperature=_outcomes.FloatChange_Keep() if temperature is None else temperature,
        max_tokens=_outcomes.CountChange_Keep() if max_tokens is None else max_tokens,
        tools=_outcomes.NamesChange_Keep() if tools is None else tools,
        inject=[] if inject is None else inject,
        block=block,
        effects=[] if effects is None else effects,
    )


def wire(body=None, effects=None) -> _outcomes.WireOutcome:
    """Outcome of a hook on a request as it goes over the wire."""
    return _outcomes.WireOutcome(
        body=body,
        effects=[] if effects is None else effects,
    )


def reply(text=None, inject=None, block=None, effects=None) -> _outcomes.ReplyOutcome:
    """Outcome of a hook on the model's answer."""
    return _outcomes.ReplyOutcome(
        text=text,
        inject=[] if inject is None else inject,
        block=block,
        effects=[] if effects is None else effects,
    )


def call(verdict=None, note=None, effects=None) -> _outcomes.CallOutcome:
    """Outcome of a hook on a tool call."""
    return _outcomes.CallOutcome(
        verdict=_outcomes.CallVerdict_Pass() if verdict is None else verdict,
        note=note,
        effects=[] if effects is None else effects,
    )


def result(content=None, is_error=None, inject=None, effects=None) -> _outcomes.ResultOutcome:
    """Outcome of a hook on a tool result."""
    return _outcomes.ResultOutcome(
        content=content,
        is_error=is_error,
        inject=[] if inject is None else inject,
        effects=[] if effects is None else effects,
    )


def steering(action=None, inject=None, effects=None) -> _outcomes.SteeringOutcome:
    """Outcome of a hook on steering."""
    return _outcomes.SteeringOutcome(
        action=_outcomes.SteeringAction_Pass() if action is None else action,
        inject=[] if inject is None else inject,
        effects=[] if effects is None else effects,
    )


def reflection(draft=None, criteria=None, verdict=None, effects=None) -> _outcomes.ReflectionOutcome:
    """Outcome of a hook before reflection."""
    return _outcomes.ReflectionOutcome(
        draft=draft,
        criteria=[] if criteria is None else criteria,
        verdict=_outcomes.VerdictChange_Keep() if verdict is None else verdict,
        effects=[] if effects is None else effects,
    )


def verdict(verdict=None, effects=None) -> _outcomes.VerdictOutcome:
    """Outcome of a hook on the verdict of reflection."""
    return _outcomes.VerdictOutcome(
        verdict=_outcomes.VerdictChange_Keep() if verdict is None else verdict,
        effects=[] if effects is None else effects,
    )


def output(text=None, block=None, effects=None) -> _outcomes.OutputOutcome:
    """Outcome of a hook on the output."""
    return _outcomes.OutputOutcome(
        text=text,
        block=block,
        effects=[] if effects is None else effects,
    )


def delta(text=None, keep=None, stop=None, effects=None) -> _outcomes.DeltaOutcome:
    """Outcome of a hook on text as it is written."""
    return _outcomes.DeltaOutcome(
        text=text,
        keep=0 if keep is None else keep,
        stop=stop,
        effects=[] if effects is None else effects,
    )


def slice(verdict=None, effects=None) -> _outcomes.SliceOutcome:
    """Outcome of a hook before compaction or archival."""
    return _outcomes.SliceOutcome(
        verdict=_outcomes.SliceVerdict_Pass() if verdict is None else verdict,
        effects=[] if effects is None else effects,
    )
