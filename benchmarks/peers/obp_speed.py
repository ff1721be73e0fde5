"""Open Bandit Pipeline: point estimates and bootstrap intervals of a policy's value from arrays."""

import warnings

import numpy as np
from obp.ope import DoublyRobust, InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting
from stopwatch import answer, question, smallest

ESTIMATORS = {
    "IPS": InverseProbabilityWeighting(),
    "SNIPS": SelfNormalizedInverseProbabilityWeighting(),
    "DR": DoublyRobust(),
}


def speed(task):
    """Return estimates and an interval, with their times, of the log at a path."""
    data = np.load(task["path"])
    log = {
        "reward": data["reward"],
        "action": data["action"],
        "pscore": data["pscore"],
        "action_dist": data["policy"][:, :, None],
    }
    model = np.ascontiguousarray(data["predicted"][:, :, None])
    found = {}
    for name, estimator in ESTIMATORS.items():
        given = dict(log, estimated_rewards_by_reg_model=model) if name == "DR" else log
        time, value = smallest(lambda e=estimator, g=given: e.estimate_policy_value(**g), task["repeats"])
        found[name] = {"time": time, "value": float(value)}
    interval = ESTIMATORS["IPS"].estimate_interval
    time, ends = smallest(
        lambda: interval(**log, alpha=task["alpha"], n_bootstrap_samples=task["resamples"], random_state=1), task["long_repeats"]
    )
    found["interval"] = {"time": time, "ends": _ends(ends)}
    return found


def coverage(task):
    """Return the bootstrap intervals of many small logs, given as weights and rewards `[runs, K]`."""
    data = np.load(task["path"])
    found = []
    for run, (weights, reward) in enumerate(zip(data["weights"], data["reward"], strict=True)):
        size = reward.size
        dist = np.zeros((size, 2, 1))
        chance = np.full(size, 1.0 / weights.max())  # weights are what counts: a probability of the action and a propensity
        dist[:, 0, 0], dist[:, 1, 0] = weights * chance, 1.0 - weights * chance
        ends = ESTIMATORS["IPS"].estimate_interval(
            reward=reward,
            action=np.zeros(size, dtype=int),
            pscore=chance,
            action_dist=dist,
            alpha=task["alpha"],
            n_bootstrap_samples=task["resamples"],
            random_state=run,
        )
        found.append(_ends(ends))
    return found


def _ends(found):
    return [float(value) for name, value in found.items() if "(lower)" in name or "(upper)" in name]


def main():
    """Answer one question: logs to be timed, and small logs for coverage."""
    warnings.simplefilter("ignore")
    asked = question()
    answer("obp", {"speed": [speed(task) for task in asked["speed"]], "coverage": coverage(asked["coverage"])})


main()
