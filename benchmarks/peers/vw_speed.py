"""The confidence sequence of vw-estimators: adds one at a time, the interval asked for after every so many."""

import numpy as np
from estimators.bandits.cs import Interval
from stopwatch import answer, once, question


def run(weights, rewards, every, alpha):
    """Return the intervals `[.., 2]` after every so many adds."""
    interval, found = Interval(rmin=0, rmax=1), []
    for number, (weight, reward) in enumerate(zip(weights, rewards, strict=True), start=1):
        interval.add_example(1.0, reward, weight)
        if number % every == 0:
            found.append(interval.get(alpha))
    return found


def main():
    """Answer one question: tasks with a number of units and how often an interval is asked for."""
    asked = question()
    data = np.load(asked["path"])
    weights, rewards = data["weights"].tolist(), data["rewards"].tolist()
    run(weights[:500], rewards[:500], 50, asked["alpha"])
    found = []
    for units, every in asked["tasks"]:
        time, intervals = once(lambda u=units, e=every: run(weights[:u], rewards[:u], e, asked["alpha"]))
        found.append({"time": time, "intervals": intervals})
    answer("vw-estimators", {"tasks": found})


main()
