"""Intervals as cells and atoms, numeric actions as halves: weights average one, and logs with densities are audited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import GRID
from interval_logs import CLIP, CUT, audited, exact, log

from aegis.audit import Auditor
from aegis.audit.batch_view import ActionHalves, bin_batch, bin_problem
from aegis.problem import Array, Batch, is_atom, parse_problem
from aegis.worlds import World, make_world


def with_density(batch: Batch, mu: Array) -> Batch:
    return batch.with_level("dose", replace(batch.levels["dose"], mu_taken=mu))


@pytest.mark.parametrize("world", [CUT, CLIP], ids=["cut", "clip"])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_in_order_is_fit(world: World, seed: int) -> None:
    audit = audited(world, log(world, seed))
    assert audit.verdict != "refused", audit.findings
    assert not {"miscalibrated-propensities", "deterministic-level", "partly-deterministic"} & set(audit.codes())


def test_cells_and_atoms_have_weights_that_average_one() -> None:
    """The indicator policies of the theory, transcribed: uniform on a cell, and always an atom."""
    batch = log(CLIP, count=6000)
    celled = bin_batch(CLIP.problem, batch).levels["dose"]
    actions = bin_problem(CLIP.problem).level("dose").actions
    assert actions.count == 12 and actions.values[0] == "0 to 1" and actions.values[-1] == "exactly 10"
    value, mu = exact(batch), batch.levels["dose"].mu_taken
    for place in range(12):
        if place < 10:
            inside = (value > place) & (value < place + 1)
            weight = np.where(inside & (value != 0) & (value != 10), 1 / mu, 0.0)
        else:
            weight = np.where(value == (0.0, 10.0)[place - 10], 1 / mu, 0.0)
        own = np.where(celled.action == place, 1 / celled.mu_taken, 0.0)
        np.testing.assert_allclose(own, weight, rtol=1e-9)
        assert abs(weight.mean() - 1) < 4.5 * weight.std() / np.sqrt(weight.size)


@pytest.mark.parametrize(
    ("what", "factor"),
    [("not renormalised", 0.7), ("a probability of a cell of 0.5", 0.5), ("per milligram and not gram", 0.001)],
)
def test_densities_that_are_too_small_are_refused(what: str, factor: float) -> None:
    batch = log(CUT)
    audit = audited(CUT, with_density(batch, factor * batch.levels["dose"].mu_taken))
    assert audit.verdict == "refused" and "miscalibrated-propensities" in audit.codes(), what


@pytest.mark.parametrize("seed", range(3))
def test_small_errors_of_densities_are_the_users_to_avoid(seed: int) -> None:
    """As docs/continuous.md says: seven per cent outside that were not divided by pass in a thousand decisions."""
    batch = log(CUT, seed, count=250)
    assert len(batch.levels["dose"]) == 1000
    audit = audited(CUT, with_density(batch, 0.93 * batch.levels["dose"].mu_taken))
    assert audit.verdict != "refused", audit.findings


def test_a_density_of_the_wrong_rows_is_refused() -> None:
    batch = log(CUT)
    mu = batch.levels["dose"].mu_taken
    audit = audited(CUT, with_density(batch, np.roll(mu, 4)))
    assert audit.verdict == "refused" and "miscalibrated-propensities" in audit.codes()


def test_a_density_that_is_too_large_only_warns() -> None:
    """Nothing can be certified by mistake from weights that are too small, and missing overlap looks the same."""
    batch = log(CUT, count=1500)
    audit = audited(CUT, with_density(batch, 3.0 * batch.levels["dose"].mu_taken))
    assert audit.verdict == "fit with warnings" and "weights-below-one" in audit.codes()
    (item,) = [item for item in audit.findings if item.code == "weights-below-one"]
    assert "least" not in item.fix and "densities" in item.fix  # an interval refuses 'least'


def test_an_interval_without_propensity_asks_for_a_density() -> None:
    level = replace(CUT.problem.level("dose"), propensity=None)
    auditor = Auditor(replace(CUT.problem, levels=tuple(level if one.name == "dose" else one for one in CUT.problem.levels)))
    auditor.add(log(CUT, count=50))
    (item,) = [item for item in auditor.result().findings if item.code == "no-propensity"]
    assert "log the density" in item.fix and "density: true" in item.fix


def test_parts_merge_to_the_same_result() -> None:
    batch = log(CLIP, count=300)
    whole = Auditor(CLIP.problem)
    whole.place(batch)
    first, second = whole.part(0), whole.part(1)
    first.add(batch.take_episodes(np.arange(150)))
    second.add(batch.take_episodes(np.arange(150, 300)))
    whole.merge(first)
    whole.merge(second)
    assert whole.result().codes() == audited(CLIP, batch).codes()


def test_a_problem_without_intervals_is_left_as_it_is() -> None:
    world = make_world("additive")
    batch = world.episodes(0, 3, world.legacy("uniform"), 1)
    assert bin_problem(world.problem) is world.problem and bin_batch(world.problem, batch) is batch


def test_atoms_do_not_count_as_cells() -> None:
    batch = log(CLIP)
    celled = bin_batch(CLIP.problem, batch).levels["dose"]
    atoms = is_atom(CLIP.problem.innermost.actions, exact(batch))
    assert atoms.any() and ((celled.action >= 10) == atoms).all() and celled.value is None


def test_halves_of_an_interval_leave_its_atoms_alone_and_average_one() -> None:
    world = make_world("dosing", ends="clip", natural_sd=4.0)
    batch = bin_batch(world.problem, world.episodes(0, 6000, world.legacy("natural"), 5))
    level = bin_problem(world.problem).level("dose")
    halves = ActionHalves.of(level, atoms=2)
    assert halves is not None and halves.level.actions.values[2:] == ("exactly 0", "exactly 10")
    table = halves.table(batch.levels["dose"])
    for place in range(4):
        weight = np.where(table.action == place, 1.0 / table.mu_taken, 0.0)
        assert abs(weight.mean() - 1.0) < 5 * weight.std() / np.sqrt(weight.size)


def test_what_has_no_order_has_no_halves_and_two_actions_need_none() -> None:
    level = parse_problem(GRID, "grid.yaml").level("dose")
    from dataclasses import replace

    from aegis.problem import Actions

    def labelled(*names: str) -> ActionHalves | None:
        return ActionHalves.of(replace(level, actions=Actions("a", names, "labels"), propensity=None))

    assert labelled("a", "b", "c", "d") is None
    two = labelled("no", "yes")
    assert two is not None and not two.several and two.level.actions.values == ("no", "yes")
