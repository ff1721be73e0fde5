"""Drafts as a whole: any names and labels, and logs that do not read with the draft."""

from __future__ import annotations

from pathlib import Path
from random import Random

import draft_logs as logs
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.logs import Source, draft_problem
from aegis.problem import parse_problem

names = st.text(min_size=1, max_size=12).filter(
    lambda text: "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
)


@given(st.lists(names, min_size=4, max_size=4, unique=True), st.lists(names, min_size=3, max_size=3, unique=True), st.randoms())
@settings(max_examples=15, deadline=None)
def test_any_names_and_labels_give_a_draft_that_loads_and_reads(columns: list[str], labels: list[str], random: Random) -> None:
    found = logs.nested_log(episodes=40)
    if set(columns) & set(found):
        return
    renamed = dict(zip(("task", "temperature", "purity", "machine"), columns, strict=True))
    found["setting"] = [labels[("low", "mid", "high").index(value)] for value in found["setting"]]
    table = pa.table({renamed.get(name, name): values for name, values in found.items()})
    table = table.select(sorted(table.column_names, key=lambda name: random.random()))
    draft = draft_problem(table)
    assert draft.problem is not None
    assert parse_problem(draft.text) == draft.problem
    assert Source(table, draft.problem).read().reward is not None
    assert not any("does not read" in question for question in draft.questions)


def test_what_cannot_be_read_with_the_draft_is_said(tmp_path: Path) -> None:
    columns = logs.nested_log()
    columns["setting"] = ["low", "mid"] * 60 + ["high"] * 360
    draft = draft_problem(logs.parquet(pa.table(columns), tmp_path), rows=120)
    assert draft.problem is not None
    assert any("does not read with this draft yet" in question and "'high'" in question for question in draft.questions)
    assert "does not read with this draft yet" in draft.text
