"""Challengers as bytes: what comes back counts the same; hosts where the legacy is known in the states that were met only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aegis.errors import PolicyError
from aegis.handover import HOSTS, GateSettings, Handover, History, pack_challenger, unpack_challenger, unpack_policy
from aegis.mechanisms import LevelRewards
from aegis.policies import FullColumns, policy_digest
from aegis.worlds import make_world

WORLD = make_world("additive", f_a=1.0)


@pytest.fixture(scope="module")
def run() -> Handover:
    found = Handover(WORLD, WORLD.legacy("uniform"), HOSTS["greedy"](), GateSettings(first=14), 3)
    found.advance(20)
    return found


def test_a_kept_challenger_counts_every_unit_the_same(run):
    batch = WORLD.episodes(100, 6, WORLD.legacy("uniform"), 9)
    assert run.challengers
    for name, challenger in run.challengers.items():
        again = unpack_challenger(pack_challenger(challenger), WORLD.problem, run.state.challenge(name))
        assert again.digest == challenger.digest
        assert again.evidence(batch) == challenger.evidence(batch)
        assert policy_digest(unpack_policy(pack_challenger(challenger), WORLD.problem)) == challenger.digest


def test_another_policy_than_was_frozen_is_refused(run):
    first, second = list(run.challengers)[:2]
    with pytest.raises(PolicyError, match="was kept: the store was altered"):
        unpack_challenger(pack_challenger(run.challengers[first]), WORLD.problem, run.state.challenge(second))


def test_above_a_legacy_known_only_where_it_was_met_a_level_is_proposed_from_what_was_seen():
    problem, batch = WORLD.problem, WORLD.episodes(0, 40, WORLD.legacy("uniform"), 2)
    rows = batch.ancestors("inner")
    columns = {level: tuple(f"{level}_{a}" for a in range(problem.level(level).actions.count)) for level in problem.names}
    extra = {
        name: batch.levels[level].mu_full[rows[level], place]
        for level, listed in columns.items()
        for place, name in enumerate(listed)
    }
    legacy = FullColumns(problem, columns)
    history = History(problem, legacy, legacy, (replace(batch, extra=extra),), ("agent",) * 40, 0, everywhere=False)
    found = HOSTS["greedy"]().propose(history, problem.names, 1)
    assert isinstance(found["meta"].scores, LevelRewards)
    assert not isinstance(found["inner"].scores, LevelRewards)
    assert np.isfinite(found["meta"].scores.predict("meta", batch)).all()
