"""compare as a user types it: two blocks that do not mix, JSON, the picture, and errors in a line."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from typed import done, run

from aegis.cli.commands.compare import estimate_text
from aegis.comparison import Estimate

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a simulated plant, and a policy learned from it."""
    folder = tmp_path_factory.mktemp("compare")
    calls: list[list[object]] = [
        ["simulate", "--episodes", 160, "--set", "inner_steps=5", "--seed", 3, "--out", folder],
        ["learn", folder / "log.parquet", "--problem", folder / "problem.yaml", "--kind", "capped", "--out", folder / "policy"],
    ]
    for call in calls:
        assert done(*call) == 0
    return folder


def compare(place: Path, *more: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    policy = ["--policy", place / "policy"]
    return run("compare", place / "log.parquet", "--problem", place / "problem.yaml", *policy, *more, capsys=capsys)


def test_json_sets_certificates_apart(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compare(place, "--scope", "inner", "--posterior", "--json", capsys=capsys)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    assert all(item["certificate"] for item in found["certificates"])
    assert not any(item["certificate"] for kind in ("bounds", "estimates") for item in found["not_certificates"][kind])
    code, out, _ = run(
        "certify", place / "log.parquet", "--problem", place / "problem.yaml", "--policy", place / "policy", "--scope", "inner",
        "--json", capsys=capsys,
    )  # fmt: skip
    level = json.loads(out)["levels"][0]
    ours = {item["what"]: item["value"] for item in found["certificates"] if item["method"] == "AEGIS certificate"}
    assert ours == {"gain": level["gain_lower"], "value": level["value_lower"]}


def test_text_cannot_be_misread(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compare(place, "--scope", "inner", capsys=capsys)
    assert code == 0, err
    above, rest = out.split("NOT CERTIFICATES", 1)
    assert above.count("CERTIFICATES") == 1 and "AEGIS certificate" in above and "≥" in above
    tables = rest.split("  a: ")[0]
    assert "≥" not in tables and "≤" not in tables
    for method in ("Student t", "central limit", "bootstrap", "IPS", "doubly robust", "lam*", "on-policy"):
        assert method not in above and method in rest, method
    for line in rest.splitlines():
        if re.match(r"│ (PRISM|Student|central|bootstrap)", line):
            numbers = [cell.strip() for cell in line.split("│")[2:4]]
            assert all(cell == "-" or re.fullmatch(r"\(-?[\d.e+]+\)", cell) for cell in numbers), line
            assert line.split("│")[4].strip(), line  # the reason
    assert "lam was chosen on the certified units" in rest and "needs fresh data" in rest and "The truth is not known" in out


def test_bounds_are_rounded_to_the_side_that_promises_less(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = compare(place, "--scope", "inner", capsys=capsys)
    _, out, _ = compare(place, "--scope", "inner", "--json", capsys=capsys)
    exact = {(item["method"], item["what"]): item["value"] for item in json.loads(out)["certificates"]}
    seen = 0
    for line in text.split("NOT CERTIFICATES")[0].splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) == 4:
            for what, cell in zip(("gain", "value"), cells[1:3], strict=True):
                if cell != "-":
                    assert float(cell) <= exact[cells[0], what]
                    assert float(cell) == pytest.approx(exact[cells[0], what], rel=2e-3)
                    seen += 1
    assert seen == len(exact)


def test_the_picture_has_a_line_for_every_method(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "methods.svg"
    code, out, err = compare(place, "--scope", "inner", "--plot", path, "--json", capsys=capsys)
    assert code == 0, err
    found = json.loads(out)
    root = ElementTree.parse(path).getroot()
    texts = [(text.get("class"), text.text or "") for text in root.iter(f"{SVG}text")]
    named = [name for kind, name in texts if kind == "certificate" and not name.startswith(("≥", "≤"))]
    assert sorted(named) == sorted(item["method"] for item in found["certificates"])
    rest = found["not_certificates"]
    nominal = [name for kind, name in texts if kind == "nominal" and not name.startswith("(")]
    assert sorted(nominal) == sorted(f"{item['method']} (no certificate)" for item in rest["bounds"])
    lines = [line for line in root.iter(f"{SVG}line") if line.get("class") == "certificate"]
    assert lines and all(400 <= float(line.get(name, "")) <= 850 for line in lines for name in ("x1", "x2"))
    assert len([line for line in root.iter(f"{SVG}line") if line.get("class") == "legacy"]) == 2
    assert compare(place, "--scope", "inner", "--plot", tmp_path / "again.svg", capsys=capsys)[0] == 0
    assert (tmp_path / "again.svg").read_text() == path.read_text()


BAD = {
    "another picture": (["--plot", "methods.png"], "name end in .svg"),
    "no such scope": (["--scope", "innr"], "did you mean 'inner'"),
    "negative clip": (["--clip", "-1"], "'clip' is a weight from 0"),
    "a weight below one": (["--largest-weight", "0.5"], "finite number from 1"),
    "delta of one": (["--delta", "1"], "delta is a risk"),
    "no such incumbent": (["--scope", "inner", "--incumbent", "no/such"], "there is no folder 'no/such'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_usage_is_told_in_a_line(place: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    more, message = BAD[case]
    code, out, err = compare(place, *more, capsys=capsys)
    assert code == 2 and not out and message in err and "Traceback" not in err


def test_a_refused_log_shows_no_number(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compare(place, "--fresh", capsys=capsys)
    assert code == 4 and not out and "nothing is compared" in err and "learned from this very log" in err


def test_ledger_and_incumbent(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--ledger", tmp_path / "looks", "--acting", place / "policy", "--largest-weight", 50]
    code, out, err = compare(place, "--scope", "inner", *more, capsys=capsys)
    assert code == 0, err
    assert len(list((tmp_path / "looks").glob("*.json"))) == 1
    above, rest = out.split("NOT CERTIFICATES", 1)
    assert "PRISM, adaptive" not in above and "PRISM, adaptive: prior lam" in rest  # learned between the certified units


def test_an_estimate_that_does_not_vary_shows_no_error() -> None:
    """A model that says the same of all units has a standard error of 0 by construction, which is no precision."""
    assert estimate_text(Estimate("direct method", "value", 0.25, 0.0, 100)) == "0.25 ± -"
    assert estimate_text(Estimate("direct method", "value", 0.25, 1e-17, 100)) == "0.25 ± -"
    assert estimate_text(Estimate("direct method", "value", 0.25, 0.01, 100)) == "0.25 ± 0.01"
    assert estimate_text(None) == "-"
