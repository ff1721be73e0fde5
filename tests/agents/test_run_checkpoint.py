"""Digests of the parts of a run: equal for equal parts, in every process; different for parts that behave differently."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from aegis.agents import identity_digest
from aegis.mechanisms import Scaling
from aegis.policies import Mixture
from aegis.worlds import WORLDS, make_world


class Plain:
    """A class of the user's without a description of its own."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass
class Described:
    value: Any


def pairs() -> list[tuple[Any, Any]]:
    world = make_world("additive")
    return [
        (world, make_world("additive", f_a=1.0)),
        (world, make_world("unified")),
        (world.legacy("uniform"), world.legacy("natural")),
        (world.legacy("sign:epsilon=0.3"), world.legacy("sign:epsilon=0.31")),
        (Mixture([world.legacy("uniform"), world.legacy("natural")], [0.5, 0.5]), Mixture([world.legacy("uniform")], [1.0])),
        ({"Q": Scaling(np.zeros(1), np.ones(1))}, {"Q": Scaling(np.zeros(1), np.full(1, 2.0))}),
        ({"Q": 1}, {"Y": 1}),
        (None, {}),
        (1, "1"),
        (True, 1),
        (np.zeros(2), np.zeros((1, 2))),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        (world.problem, make_world("additive", outer_points=3).problem),
        (Plain(1), Plain(2)),
        (Described(1), Described(2)),
        (Described(Plain(1)), Described(Plain(2))),
        ([1, 2], [2, 1]),
    ]


@pytest.mark.parametrize("index", range(len(pairs())))
def test_equal_parts_are_equal_and_others_are_not(index: int) -> None:
    (one, other), (again, _) = pairs()[index], pairs()[index]
    assert identity_digest(one) == identity_digest(again) != identity_digest(other)


def test_what_does_not_say_what_it_is_equals_nothing() -> None:
    part = Plain(lambda: 1)
    assert identity_digest(part) != identity_digest(part)


def test_another_process_finds_the_same() -> None:
    code = (
        "from aegis.agents import identity_digest; from aegis.worlds import WORLDS, make_world\n"
        "for world in map(make_world, WORLDS): print(identity_digest([world, world.legacy('natural')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [identity_digest([world, world.legacy("natural")]) for world in map(make_world, WORLDS)]
