"""Which method has the higher bound depends on the rewards: what docs/certify.md says of that, on the first logs it speaks of."""

from __future__ import annotations

import math

import numpy as np
import pytest
from method_logs import bounds


@pytest.mark.parametrize(("rewards", "cap", "better"), [("rare", math.inf, "plain"), ("spread", 2.0, "water-filled")])
def test_plain_bets_do_better_where_rewards_are_rare(rewards: str, cap: float, better: str) -> None:
    filled, plain = np.array([bounds(seed, 1000, rewards, cap) for seed in range(6)]).T
    assert np.median(plain) > np.median(filled) if better == "plain" else np.median(filled) > np.median(plain)
