"""Adds a part to the system prompt.

The classes of this module are its hooks: the name of a class is its point, here `system-prompt`, where every plugin contributes
parts. A part of the tier `stable` stays the same for the whole session, so that the provider's prompt cache holds; `volatile`
parts are for text that changes with each turn.
"""

import json

from rind_sdk import config, outcome
from wit_world.imports import outcomes, payloads


class SystemPrompt:
    def run(self, payload: payloads.PromptContext) -> outcomes.PromptOutcome:
        settings = json.loads(config.all())
        # The host fills in the source.
        part = payloads.PromptPart(tier=payloads.Tier.STABLE, key="house-rules", source="", text=settings["text"])
        return outcome.prompt(parts=[part])
