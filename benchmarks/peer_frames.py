"""From a data frame to an interval side by side: skdr-eval against `certify`, and against the same steps on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import peer_logs
from aegis.certificate import certify
from aegis.comparison.estimators import mean_estimate
from aegis.logs import Source
from aegis.mechanisms import NIG
from aegis.policies import TargetColumns
from aegis.problem import Actions, Level, Problem, Propensity, Reward, Variable
from peer_envs import ask
from peer_estimates import ALPHA, bootstrap, weights_of
from peer_rows import Row, saved, smallest

RESAMPLES = 400  # what skdr-eval takes; it cannot be set
MOST = 100_000  # rows up to which its bootstrap is timed alone
CONTEXTS = tuple(f"x{place}" for place in range(peer_logs.FEATURES))
WHY = "it is the only one that is certified, at every look"


def problem() -> Problem:
    """Return one level of decisions whose log has the probability of the action taken."""
    actions = Actions.of("action", tuple(range(peer_logs.ACTIONS)))
    level = Level("choice", actions, tuple(Variable(name) for name in CONTEXTS), Propensity(column="pscore"))
    return Problem(levels=(level,), reward=Reward("reward", (0.0, 1.0)))


def frame(log: dict[str, Any]) -> pa.Table:
    """Return the log as a table, with the candidate's probability of the action taken."""
    columns = {"episode": np.arange(log["action"].size), **{name: log[name] for name in ("action", "reward", "pscore")}}
    columns |= {name: log["context"][:, place] for place, name in enumerate(CONTEXTS)}
    columns["target"] = log["policy"][np.arange(log["action"].size), log["action"]]
    return pa.table(columns)


def certified(table: pa.Table) -> float | None:
    """Return the certified lower bound of the value, at half the risk."""
    task = problem()
    result = certify(Source(table, task), TargetColumns(task, {"choice": "target"}), delta=ALPHA, ledger=False).level("choice")
    return result.value_lower


def on_arrays(log: dict[str, Any]) -> tuple[float, list[float]]:
    """Return the doubly robust estimate and its bootstrap interval: two folds, a linear reward model for each action."""
    size, actions = log["action"].size, peer_logs.ACTIONS
    features = np.column_stack([np.ones(size), log["context"]])
    predicted = np.empty((size, actions))
    folds = np.arange(size) % 2
    for fold in (0, 1):
        for action in range(actions):
            learn = (folds != fold) & (log["action"] == action)
            state = NIG.prior(features.shape[1]).update(features[learn], log["reward"][learn, None])
            predicted[folds == fold, action] = features[folds == fold] @ state.moments().mean[:, 0]
    residual = weights_of(log) * (log["reward"] - predicted[np.arange(size), log["action"]])
    values = np.einsum("na,na->n", log["policy"], predicted) + residual
    return mean_estimate(values).value, bootstrap(values, RESAMPLES, 1)


def skdr_rows(quick: bool) -> tuple[list[Row], dict[str, str], list[str]]:
    """Return the rows of skdr-eval, its version, and how it differs."""
    sizes = (10_000,) if quick else (100_000, 1_000_000)
    logs = {size: peer_logs.made(size) for size in sizes}
    value, slopes = peer_logs.truth(), peer_logs.candidate_slopes()
    tasks = [{"path": saved(f"skdr_{size}", slopes=slopes, **log)} for size, log in logs.items()]
    found = ask("skdr_speed", {"tasks": tasks, "alpha": ALPHA, "most": MOST})
    rows, widths = [], []
    for (size, log), theirs in zip(logs.items(), found["tasks"], strict=True):
        estimate, low, high = theirs["found"]
        task, arrays = f"frame to interval, {size} rows; our `certify`", f"frame to interval, {size} rows; same steps on arrays"
        time, (own, ends) = smallest(lambda o=log: on_arrays(o), 2)
        errors = abs(estimate - value), abs(own - value)
        rows.append(Row("skdr-eval", arrays, "interval", theirs["time"], time, "absolute error", *errors))
        widths.append(
            f"{high - low:.3g} / {np.ptp(ends):.3g}, {'holds' if low <= value <= high else 'misses'} the truth ({size} rows)"
        )
        table = frame(log)
        time, lower = smallest(lambda t=table: certified(t), 1 if size > 100_000 else 2)
        errors = abs(low - value), value - (0.0 if lower is None else lower)
        rows.append(Row("skdr-eval", task, "interval", theirs["time"], time, "lower end to truth", *errors, why=WHY))
        if "bootstrap" not in theirs:
            continue
        weighted = weights_of(log) * log["reward"]
        time, ends = smallest(lambda v=weighted: bootstrap(v, RESAMPLES, 1), 1)
        errors = float(np.ptp(theirs["ends"])), float(np.ptp(ends))
        words = f"bootstrap alone ({RESAMPLES} resamples), {size} rows; units, not blocks, in ours"
        rows.append(Row("skdr-eval", words, "interval", theirs["bootstrap"], time, "width", *errors, 0.1))
    said = (
        "skdr-eval takes no propensities: it fits them, and gives the first third of the rows, which no fold predicts, the same "
        "probability for every action. Ours takes those that were logged. Widths, theirs / same steps on arrays, and whether "
        f"its interval holds or misses the truth: {'; '.join(widths)}."
    )
    return rows, {"skdr-eval": found["version"]}, [said]
