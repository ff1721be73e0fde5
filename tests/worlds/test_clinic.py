"""The clinic: its sampled equations, with masks, categories and ragged episodes."""

from __future__ import annotations

import math

import pytest
from transcription import Known, Noise, check_sampled_equations

from aegis.worlds import Clinic
from aegis.worlds.clinic import LAW, PLANS, RESPONSES, SPAN, WARDS


def chosen(law: list[float], uniform: float) -> int:
    total = 0.0
    for code, chance in enumerate(law):
        total += chance
        if uniform < total:
            return code
    return len(law) - 1


def clinic(level: str, noise: Noise, slot: int, row: Known) -> None:
    if level == "plan":
        first, second = noise("plan", "severity", slot), noise("plan", "frailty", slot)
        assert row["patient"] == pytest.approx([first, 0.5 * first + math.sqrt(0.75) * second])
        assert row["ward"] == chosen([0.5, 0.3, 0.2], noise("plan", "ward", slot))
        allowed = [True, True, WARDS[row["ward"]] != "day"]
        assert row["can_plan"] == allowed and allowed[row["plan"]]
        stay = noise("plan", "stay", slot)
        assert row["children"] == 1 + math.floor(stay * SPAN[row["plan"]][row["ward"]])
        return
    latent = 1.0 if noise("dose", "U", slot) < 0.4 else 0.0
    strength = {"conservative": 0.0, "standard": 0.6, "intensive": 1.2}[PLANS[row["plan"]]]
    assert row["response"] == chosen(LAW[row["plan"]][row["ward"]].tolist(), noise("dose", "response", slot))
    shift = {"low": 0.4, "medium": 0.0, "high": -0.4}[RESPONSES[row["response"]]]
    centre = 0.8 * row["patient"][0] - strength + shift
    assert row["level"] == pytest.approx(centre + 0.4 * latent + 0.5 * noise("dose", "N_L", slot))
    assert row["can_dose"] == [True, True, True, RESPONSES[row["response"]] != "high"]
    dose = row["dose"] / 10
    recovery = 0.8 - 0.15 * (row["level"] - 0.9 * dose) ** 2 - 0.1 * dose**2 - 0.12 * strength * (1 + row["patient"][1])
    assert row["recovery"] == pytest.approx(recovery + 0.1 * latent + 0.1 * noise("dose", "N_Y", slot))
    assert row["reward"] == min(max(row["recovery"], 0.0), 1.0)


def test_sampled_equations() -> None:
    check_sampled_equations(Clinic(), clinic)
