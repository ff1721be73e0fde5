"""docs/certify.md: its numbers are those of the code."""

from __future__ import annotations

from pathlib import Path

from aegis.certificate import head, recognising, rows, sides
from aegis.problem import seen, traces

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "certify.md").read_text(encoding="utf-8").split())


def test_numbers_on_the_page() -> None:
    for text, number in (
        (f"up to {seen.MOST} of the episodes", 4096),
        (f"up to {traces.MOST} of the decisions", 2048),
        (f"below {recognising.ALPHA:g}", 1e-4),
        (f"more than {round(1 / recognising.ALPHA):,} times its stake".replace(",", " "), 10_000),
        (f"up to {rows.MOST_ROWS:,} rows".replace(",", " "), 2**20),
        (f"at most {rows.MOST_BLOCKS} blocks", 1024),
        (f"more than {head.HEAD_ROWS:,} rows".replace(",", " "), 400_000),
        (f"makes {sides.LEAST_PLACING} on average", 20),
    ):
        assert text.replace("e-0", "e-").replace("0.0001", "1e-4") in PAGE, (text, number)
    assert sides.PLACING_SHARE == 1 / 20 and "a twentieth of them" in PAGE
