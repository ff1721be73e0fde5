"""SCOPE-RL: intervals of a policy's value from trajectories, by trajectory-wise importance sampling."""

import warnings

import numpy as np

warnings.simplefilter("ignore")

from scope_rl.ope.discrete import TrajectoryWiseImportanceSampling  # noqa: E402
from stopwatch import answer, question, smallest  # noqa: E402


def main():
    """Answer one question: the interval of each kind, with its time."""
    asked = question()
    data = np.load(asked["path"])
    estimator, found = TrajectoryWiseImportanceSampling(), {}
    for kind in asked["kinds"]:
        time, ends = smallest(
            lambda k=kind: estimator.estimate_interval(
                step_per_trajectory=asked["steps"],
                action=data["action"],
                reward=data["reward"],
                pscore=data["pscore"],
                evaluation_policy_action_dist=data["policy"],
                alpha=asked["alpha"],
                ci=k,
                n_bootstrap_samples=asked["resamples"],
                random_state=1,
            ),
            2,
        )
        found[kind] = {"time": time, "ends": [float(value) for name, value in ends.items() if "CI" in name]}
    answer("scope-rl", {"kinds": found})


main()
