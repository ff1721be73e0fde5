"""The numbers that the paper prints, transcribed from its text and tables, against those that benches credit to it."""

from __future__ import annotations

import pytest

from aegis.paper import list_benches, load_bench
from aegis.paper.bench_file import PaperNumber

Number = tuple[float, float | None]  # mean, standard deviation where the paper gives one
Numbers = dict[str, Number | dict[str, Number]]


def table(keys: str, *means: float) -> dict[str, Number]:
    """Return a row of a table that prints means alone."""
    return {key: (mean, None) for key, mean in zip(keys.split(), means, strict=True)}


# 7.2, 1.a: reward under each shift, mean and deviation over seeds.
SHIFTS: Numbers = {
    "flat_ts": {"T": (56.1, 10.1), "N_Q": (146.1, 6.6), "U": (115.0, 4.3)},
    "flat_cts": {"T": (113.6, 4.9), "N_Q": (194.7, 4.9), "U": (116.1, 5.0)},
}
# 7.2, 1.b: reward over 2000 episodes.
AGENTS: dict[str, Number] = {
    "flat_ts": (101.5, 3.1),
    "flat_cts": (108.8, 1.9),
    "joint_cts": (69.0, 5.8),
    "nested_cts": (113.6, 1.9),
}
# Table bench-1c, and from the text of 1.c the on-policy variant and the mean difference of estimate and bound.
BOUNDS: Numbers = {
    "nested_cts": {
        "published@200": (-2880.0, 567.0),
        "published@500": (-2173.0, 290.0),
        "published@1000": (-1899.0, 336.0),
        "published@1500": (-1615.0, 293.0),
        "published@2000": (-1445.0, 262.0),
        "slack@2000": (1448.0, None),
        "biased@2000": (-12526.0, 1915.0),
    }
}
# Table bench-2a: reward by power of the likelihood.
POWERS: Numbers = {
    "RFF-GP": table("0.1 0.25 0.5 0.75 1", 110.0, 112.0, 113.6, 112.7, 112.4),
    "NIG": table("0.1 0.25 0.5 0.75 1", 80.7, 80.2, 80.2, 77.1, 72.5),
}
# Table bench-3a: reward by rule for the lever.
RULES: Numbers = {**table("thompson greedy d_opt_hybrid d_optimal", 80.2, 77.5, 10.0, 7.0)}
# Table bench-3b: reward by number of actions. The paper gives one flat_joint; it is run with 7 and with 21 outer actions.
GRIDS: Numbers = {
    "icts_type2": table("21 41 81", 67.49, 67.60, 67.99),
    "icts_type1": table("21 41 81", 66.56, 67.23, 67.47),
    "flat_joint": table("21 41 81", -8.99, -8.10, -5.09),
    "flat_joint, 21 outer": table("21 41 81", -8.99, -8.10, -5.09),
}
# App. Systematic Handover Evaluation, reference trajectory: the flip, on both readings of the outer legacy.
FLIP: Numbers = {"published": {"flip_inner": (3250.0, None)}, "published, natural M": {"flip_inner": (3250.0, None)}}

PRINTED: dict[str, Numbers] = {
    "1a": SHIFTS,
    "1b": {**AGENTS},
    "1b-settings": {"200 episodes, lambda = 0.5": AGENTS},
    "1c": {**BOUNDS, "nested_cts, standardised": BOUNDS["nested_cts"]},
    "2a": POWERS,
    "3a": RULES,
    "3b": GRIDS,
    "aegis-flip": FLIP,
}


@pytest.mark.parametrize("name", list_benches())
def test_benches_credit_to_the_paper_what_it_prints(name: str) -> None:
    credited = {
        arm: number(known) if isinstance(known, PaperNumber) else {key: number(own) for key, own in known.items()}
        for arm, known in load_bench(name).paper.items()
    }
    assert credited == PRINTED.get(name, {})


def number(known: PaperNumber) -> Number:
    return known.mean, known.sd
