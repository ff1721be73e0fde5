"""The host 'external': a policy or a learner of your own, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from host_cases import LEVELS, history_of, leaning, leaning_policy, world_of

from aegis.errors import PolicyError, SettingError
from aegis.handover import HOSTS, GateSettings, Handover
from aegis.handover.hosts.base import capped_steps
from aegis.handover.hosts.external import ExternalHost
from aegis.planning import LikelihoodRanks, PlannedValues
from aegis.policies import Capped, Function, path_full


class Learner:
    """A user's own learner, which answers what the test wants."""

    def __init__(self, answer):
        """Keep what to answer, or what to raise."""
        self.answer = answer

    def propose(self, history, levels, seed):
        """Answer."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def wrong_sum(level, rows):
    return leaning(level, rows) * 0.9


class Scores:
    """Scores that the test chooses."""

    def __init__(self, values):
        """Take a number or the shape's tail."""
        self.values = values

    def predict(self, level, batch):
        """Return `[n, A]`, or what the test wants instead."""
        if isinstance(self.values, Exception):
            raise self.values
        return np.full((len(batch.levels[level]), 5), self.values) if np.ndim(self.values) == 0 else self.values


class Crooked:
    """A policy whose probabilities do not sum to one."""

    def __init__(self, problem, share):
        """Keep what they sum to."""
        self.problem, self.share, self.weights = problem, share, np.ones(1)

    def full(self, level, batch):
        """Return `[1, n, A]`."""
        return np.full((1, len(batch.levels[level]), 5), self.share / 5)

    def taken(self, level, batch):
        """Return `[1, n]`."""
        return np.full((1, len(batch.levels[level])), self.share / 5)


class Flat(Crooked):
    """A policy that knows of three actions only."""

    def __init__(self, problem):
        """Be a policy."""
        super().__init__(problem, 1.0)

    def full(self, level, batch):
        """Return `[1, n, 3]`."""
        return np.full((1, len(batch.levels[level]), 3), 1 / 3)


def test_a_fixed_policy_is_challenged_as_it_is_and_capped_towards_it():
    history = history_of(world_of())
    policy = leaning_policy(history.problem)
    proposals = ExternalHost(policy, ("inner",)).propose(history, LEVELS, 1)
    assert list(proposals) == ["inner"]
    assert proposals["inner"].policy is policy
    found = capped_steps(history.problem, history.legacy, "inner", proposals["inner"], (2.0, np.inf))
    assert list(found) == [2.0, np.inf]
    assert found[np.inf] is policy
    batch = history.everything()
    capped = Capped(history.problem, proposals["inner"].scores, history.legacy, 2.0, ["inner"])
    np.testing.assert_allclose(path_full(capped, "inner", batch)[0], [0, 0, 0.2, 0.4, 0.4])


def test_a_learner_may_answer_a_policy_scores_or_a_whole_proposal():
    history = history_of(world_of())
    policy = leaning_policy(history.problem)
    whole = HOSTS["greedy"]().propose(history, ["inner"], 1)["inner"]
    for answer, kind in ((policy, LikelihoodRanks), (whole.scores, PlannedValues), (whole, PlannedValues)):
        found = ExternalHost(Learner({"inner": answer})).propose(history, LEVELS, 1)
        assert list(found) == ["inner"]
        assert isinstance(found["inner"].scores, kind)
    assert ExternalHost(Learner({})).propose(history, LEVELS, 1) == {}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda p: {"inner": Crooked(p, 0.9)}, r"host 'external', level 'inner', row 0.*not a distribution"),
        (lambda p: {"inner": Crooked(p, np.nan)}, r"host 'external', level 'inner', row 0.*not a distribution"),
        (lambda p: {"inner": Crooked(p, 1.0)}, r"host 'external', level 'inner'.*cannot be stored"),
        (lambda p: {"inner": Function(p, wrong_sum)}, r"host 'external', level 'inner'.*sum to 1"),
        (lambda p: {"inner": Scores(np.nan)}, r"host 'external', level 'inner', row 0: the score of action 0 is nan"),
        (lambda p: {"inner": Scores(np.zeros((3, 2)))}, r"host 'external', level 'inner': scores have the shape \[3, 2\]"),
        (lambda p: {"inner": Scores(ValueError("no data"))}, r"host 'external', level 'inner': raised ValueError: no data"),
        (lambda p: {"inner": Scores(1.0)}, r"host 'external', level 'inner'.*a Scores, which cannot be stored"),
        (
            lambda p: {"inner": Flat(p)},
            r"host 'external', level 'inner': 'full' answers.*\[1, 24, 3\], expected .*= \[1, 24, 5\]",
        ),
        (lambda p: {"inner": 3.0}, r"host 'external', level 'inner'.*found float"),
        (lambda p: {"dose": leaning_policy(p)}, r"host 'external', level 'dose'.*inner, meta"),
        (lambda p: RuntimeError("no licence"), r"host 'external', levels inner, meta: raised RuntimeError: no licence"),
        (lambda p: SettingError("too few"), r"host 'external', levels inner, meta: too few"),
        (lambda p: [1], r"host 'external'.*mapping.*found list"),
    ],
)
def test_a_bad_host_is_refused_by_name_and_nothing_is_lost(answer, says):
    world = world_of()
    host = ExternalHost(Learner(answer(world.problem)))
    handover = Handover(world, world.legacy("uniform"), host, GateSettings(first=6), 1)
    with pytest.raises(PolicyError, match=says):
        handover.advance(50)
    assert handover.state.episode == 6
    assert len(handover.rewards) == 6
    assert handover.acting is handover.legacy
    assert [event.kind for event in handover.events] == ["opened", *["unit"] * 6]


def test_a_host_of_one_s_own_is_a_policy_or_proposes():
    with pytest.raises(SettingError, match=r"propose.*found int"):
        ExternalHost(3)
    with pytest.raises(SettingError, match="'levels' says where a fixed policy acts"):
        ExternalHost(Learner({}), ("inner",))
