"""The betting confidence sequence of confseq (hedged capital): whole paths of values in [0, 1]."""

import numpy as np
from confseq.betting import betting_cs
from stopwatch import answer, once, question


def main():
    """Answer one question: both ends of each run, after all units and at the median of its path, and the best time."""
    asked = question()
    runs = np.load(asked["path"])["values"] / asked["largest"]
    betting_cs(runs[0, :50], breaks=10, alpha=asked["alpha"])
    found = {}
    for name, theta in (("both", 0.5), ("lower", 1.0)):
        times, last, median = [], [], []
        for values in runs:
            time, (low, high) = once(
                lambda v=values, share=theta: betting_cs(v, breaks=asked["breaks"], alpha=asked["alpha"], theta=share)
            )
            ends = np.column_stack([low, high]) * asked["largest"]
            times.append(time)
            last.append(ends[-1].tolist())
            median.append(np.median(ends, axis=0).tolist())
        best = {key: min(time[key] for time in times) for key in ("cpu", "wall")}
        found[name] = {"time": best, "last": last, "median": median}
    answer("confseq", found)


main()
