"""Charts of a handover: missing rewards leave gaps, and nothing to draw is no error."""

from __future__ import annotations

import numpy as np
from handover_runs import challenger
from page_reader import read

from aegis.ope import reward_measure
from aegis.report.charts.handover_charts import bound_figures, evidence_figures, reward_figure
from aegis.report.gate_standing import replay_trajectory


def test_missing_rewards_leave_gaps_and_no_warnings() -> None:
    rewards = np.full(40, np.nan)
    rewards[10:30] = 1.0
    figure = reward_figure(rewards, [], None, "EUR")
    tree = read(str(figure.picture))
    assert len(tree.all(".reward-dot")) == 20 and tree.all(".bound-line")
    nothing = read(str(reward_figure(np.full(5, np.nan), [], None, "EUR").picture))
    assert not nothing.all(".reward-dot") and "No reward was observed." in str(nothing.one("desc").children[0])


def test_figures_of_nothing() -> None:
    measure = reward_measure(challenger(1).problem)
    empty = replay_trajectory(challenger(1).events, measure)
    assert bound_figures(empty, [], measure, 1, "x") == () and evidence_figures(empty, [], 1) == ()
