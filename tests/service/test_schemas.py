"""Bodies of requests: what has the right form is taken, a misspelt field or a number that is none is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from service_cases import dose, recipe, result

from aegis.service.schemas import Answer, Ask, Close, OpenEpisode, Overrule, Report, Reports, Say

RIGHT: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (OpenEpisode, {}),
    (OpenEpisode, {"id": "e-1.a:b", "time": "2026-01-01"}),
    (OpenEpisode, {"id": "07.01.2025 Früh"}),
    (OpenEpisode, {"id": "投与 3 (夜)"}),
    (Ask, recipe()),
    (Ask, dose(context={"temperature": [1, 2.5]})),
    (Overrule, {"ask": dose(), "used": True}),
    (Reports, {"items": [result("e")]}),
    (Close, {"abandoned": True}),
    (Say, {"action": "pause", "why": "to look"}),
]
WRONG: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (OpenEpisode, {"id": ""}),
    (OpenEpisode, {"id": " a"}),
    (OpenEpisode, {"id": "a "}),
    (OpenEpisode, {"id": "a/b"}),
    (OpenEpisode, {"id": "a\nb"}),
    (OpenEpisode, {"id": "x" * 101}),
    (Ask, {**recipe(), "contexts": {}}),
    (Ask, recipe(context={"task": float("nan")})),
    (Ask, recipe(available=[1, 0, 1])),
    (Ask, recipe(legacy={"distribution": ["0.5", "0.5"]})),
    (Ask, recipe(legacy={"action": None, "epsilons": 0.1})),
    (Report, result("e", reward=float("inf"))),
    (Report, result("e", reward=1e301)),
    (Report, result("e", reward=True)),
    (Reports, {"items": []}),
    (Say, {"action": "pause"}),
]


@pytest.mark.parametrize(("form", "body"), RIGHT)
def test_what_has_the_right_form_is_taken(form: type[BaseModel], body: dict[str, Any]) -> None:
    read = form.model_validate(body)
    assert form.model_validate(read.model_dump()) == read
    assert read.model_fields_set == set(body)


@pytest.mark.parametrize(("form", "body"), WRONG)
def test_what_has_another_form_is_refused(form: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        form.model_validate(body)


def test_an_answer_has_a_propensity_above_zero() -> None:
    fields = {"episode": "e", "decision": "d", "level": "dose", "action": 1.0, "index": 2, "by": "legacy", "version": "legacy"}
    assert Answer(**fields, propensity=0.2, at="now").propensity == 0.2
    for propensity in (0.0, 1.1):
        with pytest.raises(ValidationError):
            Answer(**fields, propensity=propensity, at="now")
