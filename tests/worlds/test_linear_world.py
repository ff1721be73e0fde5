"""The linear world: its sampled equations, with the clipped reward."""

from __future__ import annotations

import math

import pytest
from transcription import Known, Noise, check_sampled_equations

from aegis.worlds import LinearWorld


def linear(level: str, noise: Noise, slot: int, row: Known) -> None:
    if level == "meta":
        assert row["T"] == 1 + math.floor(3 * noise("meta", "T", slot))
        return
    latent = 1.0 if noise("inner", "U", slot) < 0.3 else 0.0
    assert row["C"] == pytest.approx(0.8 * row["M"] + 0.2 * latent + 0.3 * noise("inner", "N_C", slot))
    assert row["Y"] == pytest.approx(0.5 * row["A"] + 0.4 * row["C"] + 0.15 * latent + 0.2 * noise("inner", "N_Y", slot))
    raw = 0.3 * row["Y"] + 0.08 * row["C"] + 0.1 * row["M"] + 0.05 * row["T"] + 0.02 * row["A"]
    raw += 0.1 * latent + 0.15 * noise("inner", "N_R", slot)
    assert row["R"] == pytest.approx(min(max(raw, 0.0), 1.0))


def test_sampled_equations() -> None:
    check_sampled_equations(LinearWorld(), linear)
