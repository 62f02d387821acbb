"""Masks card numbers and the values of passwords and tokens, in tool results before the model reads them and in the output."""

import json
import re

from rind_sdk import config, outcome
from wit_world.imports import handles, outcomes, types

# Text in the place of what is masked.
MASKED = "[masked]"

# Card numbers as people write them. A check digit decides which of them are.
CARD = re.compile(
    r"\b(?:[0-9]{13,19}|[0-9]{4}(?:[ -][0-9]{4}){3}|[0-9]{4}[ -][0-9]{6}[ -][0-9]{5})\b", re.ASCII
)


class PostTool:
    def run(self, payload: handles.FinishedCall) -> outcomes.ResultOutcome:
        masks, content = Masks(), []
        for index in range(payload.len()):
            part = payload.part(index)
            masked = None if isinstance(part, types.Part_Blob) else masks.apply(part.value)
            # What is masked in a value may leave no JSON, so it continues as text.
            content.append(part if masked is None else types.Part_Text(masked))
        if masks.count == 0:
            return outcome.result()
        return outcome.result(content=content, effects=[masks.metric()])


class PreOutput:
    def run(self, payload: str) -> outcomes.OutputOutcome:
        masks = Masks()
        masked = masks.apply(payload)
        if masked is None:
            return outcome.output()
        return outcome.output(text=masked, effects=[masks.metric()])


class Masks:
    """Patterns of what is masked, and how often that was done."""

    def __init__(self):
        names = "|".join(json.loads(config.all())["names"])
        pattern = rf"""((?:{names})["']?[ \t]*[:=][ \t]*["']?)([^ \t\r\n"',;]+)"""
        self.value = re.compile(pattern, re.ASCII | re.IGNORECASE)
        self.count = 0

    def apply(self, text: str) -> str | None:
        """The text with masks; None when there is nothing to mask."""
        before = self.count
        text = self.value.sub(self._mask_value, text)
        text = CARD.sub(self._mask_card, text)
        return text if self.count > before else None

    def metric(self) -> types.Effect:
        return types.Effect_Metric(types.Metric(name="redactor.masked", value=float(self.count)))

    def _mask_value(self, found: re.Match) -> str:
        if found[2] != MASKED:
            self.count += 1
        return found[1] + MASKED

    def _mask_card(self, found: re.Match) -> str:
        if not is_card(found[0]):
            return found[0]
        self.count += 1
        return MASKED


def is_card(text: str) -> bool:
    """Whether the last digit is the check digit of the others (Luhn)."""
    digits = [int(digit) for digit in reversed(text) if digit.isdigit()]
    times = [digit * (1 + place % 2) for place, digit in enumerate(digits)]
    return sum(value - 9 if value > 9 else value for value in times) % 10 == 0
