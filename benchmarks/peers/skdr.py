"""The verdicts of skdr-eval at each look at some logs; reads a question, prints an answer.

A candidate is wrapped as the model it asks for: it turns predictions of a model into a policy in proportion to their
inverses, so that a model which predicts one over a probability stands for exactly that policy. Nothing is fitted by the model.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd
import skdr_eval
from skdr_eval.exceptions import SkdrEvalError

TINY = 1e-12


class Wrapped:
    """A policy by kind of context, `[C, A]`, told by features `[C, F]`, as a fitted model."""

    def __init__(self, features: Any, policy: Any) -> None:
        self.features, self.policy = np.asarray(features), np.asarray(policy)

    def fit(self, features: Any, outcome: Any) -> Wrapped:
        """Do nothing: the policy is fixed."""
        return self

    def predict(self, stacked: Any) -> Any:
        """Return one over the probability of the action marked in the last columns."""
        size = self.features.shape[1]
        apart = np.square(stacked[:, None, :size] - self.features).sum(axis=2)
        chances = self.policy[apart.argmin(axis=1), stacked[:, size:].argmax(axis=1)]
        return 1.0 / np.maximum(chances, TINY)


def frame(features: Any, kind: Any, action: Any, reward: Any, actions: int) -> pd.DataFrame:
    """Return a log as a table with the columns it reads."""
    context = np.asarray(features)[kind]
    columns = {"arrival_ts": np.arange(len(kind)), "action": [f"op_{number}" for number in action], "reward": reward}
    columns |= {f"cli_{place}": context[:, place] for place in range(context.shape[1])}
    columns |= {f"op_{number}_elig": np.ones(len(kind), dtype=int) for number in range(actions)}
    return pd.DataFrame(columns)


def look(table: pd.DataFrame, models: dict[str, Wrapped]) -> dict[str, dict[str, Any]]:
    """Return the verdicts on every candidate: by default, and against the mean of the logged rewards."""
    try:
        found = skdr_eval.evaluate_sklearn_models(
            table,
            models,
            fit_models=False,
            policy_train="all",
            ci_bootstrap=True,
            y_col="reward",
            baseline="logged",
            estimators=("SNDR",),
        )
    except (SkdrEvalError, ValueError) as error:
        nothing = {"default": "error", "logged": "error", "lower": None, "blocker": type(error).__name__}
        return dict.fromkeys(models, nothing)
    answers = {}
    for name in models:
        default = found.recommendation(name)
        logged = found.recommendation(name, baseline=found.baseline_value)
        lower = float(found.report.set_index("model").loc[name, "ci_lower"]) - float(found.baseline_value)
        answers[name] = {
            "default": default.verdict,
            "logged": logged.verdict,
            "lower": lower,
            "blocker": logged.primary_blocker,
        }
    return answers


def main() -> None:
    """Answer for every log and look."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    question = json.load(sys.stdin)
    features, actions = question["features"], question["actions"]
    models = {name: Wrapped(features, policy) for name, policy in question["candidates"].items()}
    answers = []
    for log in question["logs"]:
        table = frame(features, log["kind"], log["action"], log["reward"], actions)
        answers.append([look(table.iloc[:stop], models) for stop in question["stops"]])
    print(json.dumps({"version": metadata.version("skdr-eval"), "logs": answers}))


if __name__ == "__main__":
    main()
