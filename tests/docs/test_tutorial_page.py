"""docs/tutorial.md, followed literally, gives what it shows: first a certificate, then refusals that teach, and a second look."""

from __future__ import annotations

import json
import math
import re

import page_steps
import pytest

from aegis.adapters import read_dataset
from pages import typed

PAGE = page_steps.page("tutorial.md")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> page_steps.Reader:
    """Return the reader who followed the page to its end."""
    return page_steps.follow("tutorial.md", tmp_path_factory.mktemp("tutorial"))


def rows(first: str) -> list[list[str]]:
    """Return the rows of the table of the page whose head begins with these words."""
    lines = PAGE.split(f"| {first} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_tutorial_gives_what_it_shows(reader: page_steps.Reader) -> None:
    printed = list(dict.fromkeys(text for _, text in reader.printed))
    verdicts = re.findall(r"^(Certified|Refused|Not yet|Verified|refused|fit): ", "".join(printed), flags=re.M)
    assert verdicts == ["Certified", "refused", "fit", "Refused", "Not yet", "Certified", "Verified", "Certified"]
    assert sum("no-propensity" in text for text in printed) == 1
    assert json.loads((reader.place / "certificate.json").read_text())["verdict"] == "certified"
    assert "<html" in (reader.place / "report.html").read_text()[:1000]


def test_the_certificate_comes_in_the_third_step(reader: page_steps.Reader) -> None:
    ahead = PAGE.split("## 4.")[0]
    assert "```text\nCertified:" in ahead.split("## 3.")[1] and "exit code" not in ahead


def test_the_mended_log_gives_the_same_gain(reader: page_steps.Reader) -> None:
    log = "unlogged/log.parquet --problem unlogged/problem.yaml"
    with reader.at_work():
        typed(f"aegis learn {log} --kind capped --out mended")
        typed(f"aegis certify {log} --policy mended --out mended.json")
    gains = [
        json.loads((reader.place / f"{name}.json").read_text())["summary"]["gain_lower"] for name in ("certificate", "mended")
    ]
    assert gains[0] == gains[1]


def test_no_step_overwrites_what_another_wrote() -> None:
    written = re.findall(r"--(?:out|report) (\S+)", "\n".join(re.findall(r"^aegis .*$", PAGE, flags=re.M)))
    assert len(written) == len(set(written)) == 11


def test_the_rows_on_the_page_are_rows_of_the_log() -> None:
    table = read_dataset("coating", []).table.to_pylist()
    logged = {(row["batch"], row["part"]): row for row in table}
    for batch, humidity, program, part, roughness, spray, margin, *shares in rows("batch"):
        row = logged[int(batch), int(part)]
        assert (str(row["humidity"]), row["program"], str(row["roughness"])) == (humidity, program, roughness)
        assert [str(row[name]) for name in ("spray", "margin", "p_spray_1", "p_spray_2", "p_spray_3")] == [spray, margin, *shares]


def test_the_parts_of_the_sentence_are_in_the_sentence(reader: page_steps.Reader) -> None:
    sentence = json.loads((reader.place / "certificate.json").read_text())["summary"]["sentence"]
    assert len(rows("words")) == 7
    for words, _ in rows("words"):
        assert words in sentence, words


def test_the_two_looks_are_those_of_the_certificates(reader: page_steps.Reader) -> None:
    looks = [json.loads((reader.place / f"{name}.json").read_text()) for name in ("first", "grown")]
    (units, gains, risks) = (row[1:] for row in rows("at `program`"))
    levels = [next(level for level in look["levels"] if level["scope"] == ["program"]) for look in looks]
    assert units == [str(level["units"]) for level in levels]
    assert gains == [f"{rounded_down(level['gain_lower']):g} EUR" for level in levels]
    assert risks == ["5%", "10%"]


def rounded_down(bound: float) -> float:
    """Return a bound with two significant digits, never above it."""
    scale = 10 ** (1 - math.floor(math.log10(abs(bound))))
    return math.floor(bound * scale) / scale


def test_the_way_is_as_long_as_it_says() -> None:
    headings = [line for line in PAGE.splitlines() if line.startswith("## ")]
    assert [line.split(".")[0] for line in headings] == [f"## {number}" for number in range(1, 9)]
