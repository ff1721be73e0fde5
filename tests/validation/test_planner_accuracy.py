"""Plans against replications: what is foreseen is at least 0.9 and at most 1.5 times the median number of units it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aegis.certificate import Candidate, Request, UnitSplit, scan_log
from aegis.logs import Split
from aegis.mechanisms import LevelRewards, ModelSettings, fit_scalings
from aegis.ope import CandidateView
from aegis.policies import Capped, Logged, with_incumbent
from aegis.problem import Batch, Problem
from aegis.validation import crossing, plan, wealth_path
from aegis.worlds import make_world

PRIOR, DELTA, RUNS = 100, 0.0101, 9
SPLIT = Split("time", cut=PRIOR)
WORLD = make_world("additive")
PROBLEM = replace(WORLD.problem, time="number")


def log_of(legacy: str, episodes: int, seed: int) -> Batch:
    batch = WORLD.episodes(0, PRIOR + episodes, WORLD.legacy(legacy), seed)
    return replace(batch, time=batch.episode)


def units(problem: Problem, log: Batch, cap: float) -> float:
    """Return after how many units the gain of a capped candidate, learned from the first episodes, is certified on the rest."""
    prior = log.take_episodes(np.arange(PRIOR))
    settings = ModelSettings(features="linear")
    rewards = LevelRewards.prior(problem, settings, fit_scalings(problem, [prior])).update(prior)
    candidate = Candidate(Capped(problem, rewards, Logged(problem), cap, ("inner",)), rewards=rewards)
    request = Request.of(problem, candidate, [["inner"]], DELTA, "auto", ("gain",))
    found = scan_log(request, iter([log]), UnitSplit((SPLIT,)))
    rest = log.take_episodes(np.arange(PRIOR, len(log)))
    view = CandidateView(problem, rest, candidate.policy, found.models[0], request.comparator)
    return float(crossing(wealth_path(found.evidence[0], view, 0.0), DELTA) or np.inf)


# The truth: actions from -2 to 2, two reward units for each; the legacy's own action is 0, on average or always.
@pytest.mark.parametrize(
    ("legacy", "explore", "cap", "most", "gain", "loss", "typical"),
    [("uniform", 1.0, 2.0, 40, 4.0, 0.0, 0.2), ("constant:value=0,epsilon=0.2", 0.2, 1.5, 300, 4.0, 0.0, 0.2)],
)
def test_plans_foresee_what_is_measured(
    legacy: str, explore: float, cap: float, most: int, gain: float, loss: float, typical: float
) -> None:
    logs = [log_of(legacy, most, seed) for seed in range(RUNS)]
    problem = with_incumbent(PROBLEM, WORLD.legacy(legacy))
    measured = float(np.median([units(problem, log, cap) for log in logs]))
    assert np.isfinite(measured)
    given = {"levels": ["inner"], "caps": [cap], "delta": DELTA}
    guess = plan(PROBLEM, gain=gain, loss=loss, typical=typical, spread=0.5, explore=[explore], **given)  # type: ignore[arg-type]
    pilot = plan(problem, logs[0].take_episodes(np.arange(PRIOR)), explore=[1.0], **given)  # type: ignore[arg-type]
    for found in (guess, pilot):
        foreseen = found.levels[0].rows[0].episodes
        assert foreseen is not None
        assert 0.9 * measured <= foreseen <= 1.5 * measured
