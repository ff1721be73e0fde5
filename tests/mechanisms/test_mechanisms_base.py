"""The defaults of a feature map: what a map that overrides nothing answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aegis.mechanisms import FeatureMap
from aegis.rng import stream

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Squares(FeatureMap):
    """An intercept and the squares of two inputs."""

    @property
    def size(self) -> int:
        return 3

    @property
    def intercept(self) -> int:
        return 0

    @property
    def affine(self) -> bool:
        return False

    def __call__(self, inputs: Array) -> Array:
        return np.concatenate([np.ones((*inputs.shape[:-1], 1)), np.square(inputs)], axis=-1)

    def expected(self, inputs: Array, sd: Array) -> Array:
        return self(inputs) + np.concatenate([np.zeros((*inputs.shape[:-1], 1)), np.broadcast_to(sd**2, inputs.shape)], axis=-1)


def test_values_and_their_expectation_over_noise() -> None:
    rng = stream(1, "squares")
    inputs, weights = rng.standard_normal((1, 4, 2)), rng.standard_normal((3, 3, 1))
    sd = np.abs(rng.standard_normal((3, 1, 2)))
    plain, noisy = Squares().evaluate(inputs, weights), Squares().evaluate(inputs, weights, sd)
    for s in range(3):
        for n in range(4):
            x, w = inputs[0, n], weights[s, :, 0]
            np.testing.assert_allclose(plain[s, n, 0], w[0] + w[1] * x[0] ** 2 + w[2] * x[1] ** 2)
            more = w[1] * sd[s, 0, 0] ** 2 + w[2] * sd[s, 0, 1] ** 2
            np.testing.assert_allclose(noisy[s, n, 0], plain[s, n, 0] + more)


def test_every_value_of_a_block_in_turn() -> None:
    rng = stream(2, "squares")
    inputs, weights, grid = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 3, 2)), rng.standard_normal((5, 1))
    each = Squares().evaluate_each(inputs, slice(1, 2), grid, weights)
    assert each.shape == (3, 4, 5, 2)
    for a in range(5):
        changed = inputs.copy()
        changed[..., 1] = grid[a, 0]
        np.testing.assert_allclose(each[:, :, a], Squares().evaluate(changed, weights))
