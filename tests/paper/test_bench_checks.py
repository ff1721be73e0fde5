"""Settings, metrics, claims and figures that cannot work are named before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
from bench_cases import SMALL, bench

from aegis.errors import InputError, SettingError
from aegis.paper import load_bench, parse_bench, plan_bench


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"agent": "nobody"}, "'agent': unknown agent 'nobody'"),
        ({"legacy": 5}, "'legacy' should be a text, found 5"),
        ({"legacy": "natural:epsilon=2"}, "'legacy': "),
        ({"world.name": "additve"}, "'world': unknown world 'additve' (did you mean 'additive'?)"),
        ({"world.f_q": 1}, "'world': world 'additive' has no setting 'f_q'"),
        ({"world.inner_steps": "x"}, "'world'"),
        ({"episodes": "many"}, "'episodes' should be a whole number"),
        ({"episodes": 0}, "'episodes' should be greater than or equal to 1"),
        ({"model.temer": 1}, "'model': unknown setting of a model 'temer' (did you mean 'temper'?)"),
        ({"model.precision": "x"}, "'model'"),
        ({"rule.particels": 3}, "rule 'thompson' has no setting 'particels'"),
        ({"outer_rule": "best"}, "unknown rule 'best'"),
        ({"options.points": [3]}, "unknown key 'options.points'"),
        ({"legacy": None}, "'legacy' is changed to nothing"),
    ],
)
def test_a_setting_that_cannot_work_is_named_before_anything_runs(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError) as raised:
        plan_bench(bench(SMALL.replace("flat_joint", "nested_nig")), "quick", changes)
    assert says in str(raised.value) and "bench small" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("1c", {"episodes": 20}, "--set options.points=[20]"),
        ("1c", {"options.points": [300, 200]}, "'options.points' are numbers of episodes that grow"),
        ("1c", {"options.points": 5}, "'options.points' should be a list"),
        ("1c", {"options.lam": "none"}, "'options.lam' should be 'root', 'closed form' or 'temper'"),
        ("1c", {"options.scope": ["iner"]}, "'options.scope': "),
        ("1a", {"options.shifts": ["X"]}, "'options.shifts': "),
        ("firing-order", {"options.host": "x"}, "'options.host': unknown host 'x'"),
        ("firing-order", {"options.gate": "x"}, "unknown gate 'x'"),
        ("firing-order", {"options.gate_settings.upgrads": True}, "'options.gate_settings': "),
        ("firing-order", {"agent": "nested_cts"}, "the measure 'gate' has no agent"),
        ("offline-1", {"options.prior_world": {"f_x": 1}}, "'options.prior_world': "),
        ("offline-1", {"options.prior_world": {"name": "clinic"}}, "'options.prior_world': "),
        ("offline-1", {"options.alpha": 1.5}, "'options.alpha' should be less than 1"),
        ("offline-1", {"episodes": 1}, "leaves none to learn from"),
        ("offline-1", {"options.scope": ["iner"]}, "'options.scope': "),
        ("3b", {"world.inner_points": 5}, "sweeps 'world.inner_points'"),
    ],
)
def test_a_setting_of_a_measure_that_cannot_work(name: str, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError) as raised:
        plan_bench(load_bench(name), "full", changes)
    assert says in str(raised.value) and f"bench {name}" in str(raised.value)


SWEPT = "\nsweep: {key: world.f_a, values: [1, 2, 3]}\n"


CLAIM = "claims: [{says: so, test: %s, with: {%s}}]"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("figures: [{kind: barz}]", "unknown kind of a figure 'barz' (did you mean 'bars'?)"),
        ("figures: [{kind: bars, metric: rewad}]", "unknown metric of a figure of the arm 'linear' 'rewad'"),
        ("figures: [{kind: bars, metric: curve}]", "'curve' is a list"),
        ("figures: [{kind: curves, metric: reward}]", "unknown list for the curve"),
        ("figures: [{kind: sweep}]", "needs a 'sweep'"),
        ("figures: [{kind: flips}]", "shows a handover"),
        ("figures: [{kind: convergence}]", "needs the measure 'split'"),
        ("figures: [{kind: bars}]" + SWEPT, "has no place for what is swept"),
        ("metrics: [reward, regert]", "unknown metric in 'metrics' of the arm 'linear' 'regert' (did you mean 'regret'?)"),
        ("metrics: [curve]", "'curve' is a list"),
        ("metrics: [reward, regret]\npaper: {linear: {rewrd: {mean: 1.0}}}", "unknown key under 'paper.linear' 'rewrd'"),
        ("metrics: [curve@7]\npoints: [5]", "unknown point of 'curve'"),
        (CLAIM % ("welch", "above: linear, below: tabel"), "unknown arm 'tabel' (did you mean 'table'?)"),
        (CLAIM % ("welch", "above: linear, belo: table"), "'with.below' is missing; unknown key 'with.belo'"),
        (CLAIM % ("welch", "above: linear"), "'with.below' is missing"),
        (CLAIM % ("within", "arm: linear, metric: rewad, low: 1"), "unknown metric under 'with.metric' 'rewad'"),
        (CLAIM % ("within", "arm: linear, metric: curve, low: 1"), "'curve' is a list"),
        (CLAIM % ("within", "arm: linear, low: high"), "'with.low' should be a number, found 'high'"),
        (CLAIM % ("within", "arm: linear, low: 1") + SWEPT, "name the value, such as linear@1"),
        (CLAIM % ("within", "arm: linear@7, low: 1") + SWEPT, "linear was not run at 7"),
        (CLAIM % ("trend", "arm: linear, sign: 1"), "the test 'trend' needs a 'sweep'"),
    ],
)
def test_what_can_never_come_out_of_a_bench_is_told_before_it_runs(line: str, says: str) -> None:
    text = SMALL[: SMALL.index("paper:")] + line
    with pytest.raises(InputError) as raised:
        plan_bench(parse_bench(text, "small", "small.yaml"), "quick")
    assert says in str(raised.value) and "bench small" in str(raised.value)
