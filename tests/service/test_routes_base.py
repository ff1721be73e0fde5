"""What all routes share: the errors that they may answer with, by status, and the form of keys."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from aegis.service.live_gate import internal_key
from aegis.service.routes.base import Key, answers
from aegis.service.schemas import ErrorAnswer


def test_answers_are_described() -> None:
    described = answers(409, 422, 503)
    assert set(described) == {400, 401, 403, 409, 413, 421, 422, 429, 503}
    assert all(item["model"] is ErrorAnswer and item["description"].endswith(".") for item in described.values())
    assert 400 not in answers(503)  # a request without a body cannot be misread


def test_no_key_of_a_caller_can_be_one_of_the_gates_own() -> None:
    keys: TypeAdapter[str] = TypeAdapter(Key)
    for key in ("a", "my-key:1", "x" * 100):
        assert keys.validate_python(key) == key
    for key in ("", "x" * 101, "a b", "\t", internal_key("episode", "e")):
        with pytest.raises(ValidationError):
            keys.validate_python(key)
