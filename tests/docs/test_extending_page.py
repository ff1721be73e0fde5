"""docs/extending.md: every skeleton runs, enters itself in its table, and meets what the conformance tests ask of an entry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import page_steps
import pytest

from aegis.evidence import BOUNDS
from aegis.handover import HOSTS
from aegis.mechanisms import FEATURES
from aegis.planning import RULES
from aegis.worlds import WORLDS, oracle_value, true_value

PAGE = page_steps.page("extending.md")
TABLES = {"WORLDS": WORLDS, "FEATURES": FEATURES, "RULES": RULES, "BOUNDS": BOUNDS, "HOSTS": HOSTS}


@pytest.fixture
def _tables() -> Iterator[None]:
    """Take out of the tables what the page has entered."""
    before = {name: dict(table) for name, table in TABLES.items()}
    yield
    for name, table in TABLES.items():
        for key in set(table) - set(before[name]):
            del table[key]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_tables")
def test_the_skeletons_run_and_stand_in_their_tables(tmp_path: Path) -> None:
    page_steps.follow("extending.md", tmp_path)
    for name, entry in (("WORLDS", "tank"), ("FEATURES", "sine"), ("RULES", "epsilon_greedy"), ("BOUNDS", "Cantelli")):
        assert entry in TABLES[name]
    assert HOSTS["regressing"]().name == "regressing"
    tank = WORLDS["tank"]()
    for legacy in ("uniform", "constant"):
        policy = tank.legacy(legacy)
        batch = tank.episodes(0, 3000, policy, seed=2)
        assert batch.reward is not None
        error = batch.reward.std() / np.sqrt(batch.reward.size)
        assert abs(batch.reward.mean() - true_value(tank, policy)) < 4 * error
        assert oracle_value(tank) > true_value(tank, policy)
    sine, inputs = FEATURES["sine"](2), np.array([[0.3, -1.0]])
    nodes, mass = np.polynomial.hermite_e.hermegauss(30)
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    weights = np.outer(mass, mass).ravel() / mass.sum() ** 2
    np.testing.assert_allclose(
        sine.expected(inputs, np.array([0.5, 0.2]))[0], weights @ sine(inputs + grid * [0.5, 0.2]), atol=1e-9
    )


def test_the_tables_and_tests_named_exist() -> None:
    for table, place in re.findall(r"`([A-Z]+)` in `(src/[^`]+)`", PAGE):
        assert re.search(rf"^{table}\b", (page_steps.ROOT / place).read_text(encoding="utf-8"), flags=re.M), table
    named = re.findall(r"`((?:tests|src)/[^`]+)`", PAGE)
    assert len(named) >= 12
    for place in named:
        assert (page_steps.ROOT / place).exists(), place
