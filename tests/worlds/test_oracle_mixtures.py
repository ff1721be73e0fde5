"""The true value of a mixture: one particle acts throughout an episode."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.errors import SettingError
from aegis.policies import Legacy, Mixture, Natural
from aegis.worlds import Unified, oracle_value, true_value

SMALL = Unified(sigma_q=1.0, outer_points=5, inner_points=5)
SHARES = [0.5, 0.2, 0.3]


def members() -> list[Legacy]:
    return [
        Legacy(SMALL.problem, {"meta": Natural({}, 0.5, lever), "inner": Natural({"Q": slope, "M": 0.2}, 0.5)})
        for lever, slope in ((-1.5, 0.1), (1.5, 0.4), (0.5, -0.2))
    ]


def test_a_mixture_is_worth_the_average_of_its_particles() -> None:
    values = [true_value(SMALL, member) for member in members()]
    assert len({round(value, 3) for value in values}) == 3
    assert true_value(SMALL, Mixture(members(), SHARES)) == pytest.approx(np.dot(SHARES, values))


def test_a_mixture_beside_a_controller_is_refused() -> None:
    with pytest.raises(SettingError, match="one particle, found a mixture"):
        oracle_value(SMALL, ("inner",), Mixture(members(), SHARES))
