"""Who had a level when: turns, what was given back, and averages of who acts now."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aegis.errors import InputError
from aegis.handover import (
    HOSTS,
    Flipped,
    GateSettings,
    Handover,
    OperatorAction,
    Reverted,
    summarise_run,
)
from aegis.ope import reward_measure
from aegis.worlds import make_world

WORLD = make_world("additive", f_a=2.0, inner_steps=3)


@pytest.fixture(scope="module")
def both() -> Handover:
    """Return a run in which both levels change hands and the first is given back."""
    settings = GateSettings(caps=(3.0,), upgrades=False, holdback=0.2)
    run = Handover(WORLD, WORLD.legacy("uniform"), HOSTS["greedy"](), settings, 1)
    while len(run.deployed) < 2 and run.state.episode < 900:
        run.advance(run.state.episode + 20)
    run.advance(run.state.episode + 30)
    run.say(OperatorAction("revert", "ann", "not convinced", 0, "inner"))
    run.advance(run.state.episode + 30)
    return run


def test_the_sentence_warns_of_a_combination_that_was_not_tested(both: Handover) -> None:
    found = summarise_run(both)
    assert found["untested"] == {"meta": ["inner"]}
    assert (
        "The gain at 'meta' was certified with the agent at 'inner', given back since: this combination was not tested."
        in found["sentence"]
    )
    inner = found["levels"][0]
    first = next(event for event in both.events if isinstance(event, Flipped))
    given = next(event for event in both.events if isinstance(event, Reverted))
    assert inner["held"] == [[first.since, given.since - 1]] and inner["since"] is None


def test_averages_are_of_whoever_acts_now_and_of_what_was_held_back(both: Handover) -> None:
    measure, found = reward_measure(WORLD.problem), summarise_run(both)["rewards"]
    values = np.array([measure.value(value) for value in both.rewards])
    arms = np.array(both.arms)
    given = next(event for event in both.events if isinstance(event, Reverted))
    first = next(event for event in both.events if isinstance(event, Flipped))
    assert found["now"] == pytest.approx(values[given.since - 1 :][arms[given.since - 1 :] == "agent"].mean())
    assert found["held_back"] == pytest.approx(values[arms == "legacy"].mean())
    assert found["held_back_episodes"] == (arms == "legacy").sum() > 10
    later = arms[first.since - 1 :] == "agent"
    assert found["beside"] == pytest.approx(values[first.since - 1 :][later].mean()) and found["beside_episodes"] == later.sum()


def test_a_run_that_was_given_back_says_so() -> None:
    run = Handover(WORLD, WORLD.legacy("uniform"), HOSTS["greedy"](), GateSettings(caps=(2.0,), upgrades=False), 1)
    run.advance(60)
    assert run.deployed
    run.say(OperatorAction("revert", "ann", "not convinced", 0, "inner"))
    assert summarise_run(run)["sentence"].startswith(
        "Given back: after 60 episodes the legacy controls every level again; the agent"
    )


def test_no_sentence_speaks_of_a_risk_that_is_overspent(both: Handover) -> None:
    run = Handover(WORLD, both.legacy, both.host, both.settings, 1)
    run.advance(5)
    run.state = replace(run.state, spent=0.06)
    with pytest.raises(InputError, match=r"have spent 0\.06 of a risk of 0\.05"):
        summarise_run(run)
