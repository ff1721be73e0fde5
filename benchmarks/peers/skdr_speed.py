"""skdr-eval: a policy's value with an interval from a data frame, and its block bootstrap alone, in its fastest setting."""

import logging
import warnings

import numpy as np
import pandas as pd
import skdr_eval
from skdr_eval.core import block_bootstrap_ci
from stopwatch import answer, once, question


class Candidate:
    """The candidate as the model that is asked for: a prediction of one over its probability stands for that probability."""

    def __init__(self, slopes):
        self.slopes = slopes

    def fit(self, features, outcome):
        """Do nothing: the policy is fixed."""
        return self

    def predict(self, stacked):
        """Return one over the softmax probability of the action marked in the last columns."""
        size = len(self.slopes)
        scores = stacked[:, :size] @ self.slopes
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances = (raised * stacked[:, size:]).sum(axis=1) / raised.sum(axis=1)
        return 1.0 / np.maximum(chances, 1e-12)


def frame(data, rows):
    """Return the log as a table with the columns that are read."""
    context, action = data["context"][:rows], data["action"][:rows]
    columns = {
        "arrival_ts": np.arange(len(action)),
        "action": np.char.add("op_", action.astype(str)),
        "reward": data["reward"][:rows],
    }
    columns.update({f"cli_{place}": context[:, place] for place in range(context.shape[1])})
    columns.update({f"op_{number}_elig": np.ones(len(action), dtype=int) for number in range(data["policy"].shape[1])})
    return pd.DataFrame(columns)


def evaluated(table, models, alpha):
    """Return estimate and interval: two folds, ridge regression, the self-normalised estimator, no search for a clip."""
    found = skdr_eval.evaluate_sklearn_models(
        table,
        models,
        fit_models=False,
        n_splits=2,
        outcome_estimator="ridge",
        clip_grid=(float("inf"),),
        ci_bootstrap=True,
        alpha=alpha,
        policy_train="all",
        y_col="reward",
        estimators=("SNDR",),
    )
    row = found.report.iloc[0]
    return [float(row[name]) for name in ("V_hat", "ci_lower", "ci_upper")]


def main():
    """Answer one question: for each log, the time and result of an evaluation, and of the bootstrap alone."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    asked = question()
    answers = []
    for task in asked["tasks"]:
        data = dict(np.load(task["path"]))
        models = {"candidate": Candidate(data["slopes"])}
        evaluated(frame(data, 2000), models, asked["alpha"])
        table = frame(data, None)
        whole, found = once(lambda t=table, m=models: evaluated(t, m, asked["alpha"]))
        answers.append({"time": whole, "found": found})
        if len(table) > asked["most"]:
            continue
        values = data["policy"][np.arange(len(table)), data["action"]] / data["pscore"] * data["reward"]
        boot, ends = once(lambda v=values: block_bootstrap_ci(v, None, np.array([v.mean()]), alpha=asked["alpha"]))
        answers[-1].update({"bootstrap": boot, "ends": list(ends)})
    answer("skdr-eval", {"tasks": answers})


main()
