"""What hosts believe about the plant's mechanisms: from the prior of their models on, or from a warm start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from aegis.errors import SettingError
from aegis.mechanisms import Belief, ModelSettings, build_belief, fit_scalings, select_models
from aegis.problem import Batch, Problem


def learn_belief(problem: Problem, batch: Batch, models: Mapping[str, ModelSettings]) -> Belief:
    """Return the belief about all mechanisms after a batch, each with the likeliest of several models."""
    scalings = fit_scalings(problem, [batch])
    beliefs = [build_belief(problem, settings, None, scalings).update(batch) for settings in models.values()]
    return select_models(beliefs)[0]


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A belief that starts at what an earlier log taught (the paper's reference prior p0, Eq. p0-construction).

    log: episodes of the same plant from before the gate; None takes the earlier half of the closed episodes instead. What came
    after moves the belief away from p0, and is all that the divergence KL(p_k || p0) counts.
    """

    log: Batch | None = None

    def __post_init__(self) -> None:
        if self.log is not None and not len(self.log):
            raise SettingError("a warm start needs a log with episodes; give one, or leave it out")

    def belief(self, problem: Problem, batch: Batch, models: Mapping[str, ModelSettings]) -> tuple[Belief, int]:
        """Return the belief after the log and the closed episodes, p0 its prior; and how many episodes came after p0.

        Inputs are standardised by the log, and each mechanism keeps the model that is the likeliest over both parts.
        """
        before, after = self._parts(batch)
        scalings = fit_scalings(problem, [before])
        started = [build_belief(problem, settings, None, scalings).update(before) for settings in models.values()]
        belief, chosen = select_models([one if after is None else one.update(after) for one in started])
        reference = {name: started[index].states[name] for name, index in chosen.items()}
        return replace(belief, prior=reference), 0 if after is None else len(after)

    def _parts(self, batch: Batch) -> tuple[Batch, Batch | None]:
        """Return the log and the closed episodes; without a log the two halves of these, a single episode being the log."""
        if self.log is not None:
            return self.log, batch if len(batch) else None
        half = (len(batch) + 1) // 2
        later = np.arange(half, len(batch))
        return batch.take_episodes(np.arange(half)), batch.take_episodes(later) if later.size else None
