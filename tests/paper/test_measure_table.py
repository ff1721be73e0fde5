"""The table of measures: names, options and metrics."""

from __future__ import annotations

import pytest
from bench_cases import SETTINGS

from aegis.paper.measure_table import MEASURES, TRUE_VALUES, metrics_of


@pytest.mark.parametrize("measure", MEASURES)
def test_the_names_of_metrics_are_those_that_a_measure_gives(measure: str) -> None:
    (own,) = MEASURES[measure](SETTINGS[measure], [0])
    names = metrics_of(measure, SETTINGS[measure])
    assert {name for name, item in own.items() if isinstance(item, list)} == set(names.lists)
    assert {name for name, item in own.items() if not isinstance(item, list)} == set(names.numbers)


def test_the_spread_of_a_mechanism_is_a_metric_where_it_is_asked_for() -> None:
    settings = {**SETTINGS["online"], "options": {"spread_of": "Q"}}
    (own,) = MEASURES["online"](settings, [0])
    assert set(own) == set(metrics_of("online", settings).all) == {*metrics_of("online", SETTINGS["online"]).all, "spread"}


def test_true_values_can_be_left_out_of_split() -> None:
    settings = {**SETTINGS["split"], "options": {**SETTINGS["split"]["options"], "true_values": False}}
    (own,) = MEASURES["split"](settings, [0])
    assert (
        set(own) == set(metrics_of("split", settings).all) == set(metrics_of("split", SETTINGS["split"]).all) - set(TRUE_VALUES)
    )


def test_measures_are_documented() -> None:
    assert all(measure.__doc__ for measure in MEASURES.values())
