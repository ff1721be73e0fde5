"""True values of simulated worlds at an eighth of the quadrature nodes, for tests that need a value and not its last digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aegis.worlds import unified_world

COARSER = 8


@pytest.fixture(scope="module")
def coarse_oracle() -> Iterator[None]:
    """Use fewer nodes in the unified worlds. tests/worlds checks how exact the usual number is."""
    gaussian, latent = unified_world.gaussian_nodes, unified_world.latent_nodes

    def fewer_gaussian(count: int, *more: Any) -> Any:
        return gaussian(count // COARSER, *more)

    def fewer_latent(*given: Any) -> Any:
        return latent(*given[:-1], given[-1] // COARSER)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unified_world, "gaussian_nodes", fewer_gaussian)
        patch.setattr(unified_world, "latent_nodes", fewer_latent)
        yield
