"""The columns a problem needs."""

from __future__ import annotations

import pytest
from log_samples import PROBLEMS

from aegis.errors import LogError
from aegis.logs import required_columns
from aegis.logs.columns import check_columns_present


def test_every_field_of_a_problem_asks_for_its_columns() -> None:
    found = {(column.name, column.role, column.kind, column.level) for column in required_columns(PROBLEMS["nested"], ["note"])}
    assert found == {
        ("batch", "episode", "key", None),
        ("machine", "cluster", "key", None),
        ("started", "time", "time", None),
        ("run", "decision", "key", "recipe"),
        ("task", "context", "number", "recipe"),
        ("shape", "context", "category", "recipe"),
        ("setting", "action", "category", "recipe"),
        *((f"can_{name}", "available", "flag", "recipe") for name in ("low", "mid", "high")),
        *((f"p_{name}", "propensity", "number", "recipe") for name in ("low", "mid", "high")),
        ("step", "decision", "key", "dose"),
        ("s1", "context", "number", "dose"),
        ("s2", "context", "number", "dose"),
        ("dose", "action", "category", "dose"),
        ("p_dose", "propensity", "number", "dose"),
        ("purity", "outcome", "number", None),
        ("margin", "reward", "number", None),
        ("scrap", "guard", "number", None),
        ("note", "extra", "any", None),
    }


def test_a_column_may_have_several_roles_and_is_asked_for_once_in_each() -> None:
    columns = required_columns(PROBLEMS["flat"], ["age", "age"])
    assert [column.role for column in columns if column.name == "age"] == ["context", "extra"]
    assert len({column.key for column in columns}) == len(columns)


def test_only_results_and_extras_may_be_missing() -> None:
    optional = {column.role for column in required_columns(PROBLEMS["nested"], ["note"]) if column.optional}
    assert optional == {"outcome", "reward", "guard", "extra"}


def test_a_column_in_use_is_not_offered_for_another() -> None:
    columns = required_columns(PROBLEMS["nested"])
    present = [column.name for column in columns if column.name not in ("p_mid",)]
    with pytest.raises(LogError) as caught:
        check_columns_present(columns, present, "log.csv")
    assert "'p_mid' (propensity of level 'recipe'). The file has" in str(caught.value)
    check_columns_present(columns, [*present, "p_mid"], "log.csv")
