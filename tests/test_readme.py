"""The README is short and does what it says: its example prints what it shows, its commands exist."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import aegis
from pages import blocks_of

sys.path.append(str(Path(__file__).parent / "docs"))
import page_steps

NAME = "README.md"
README = (Path(__file__).parents[1] / NAME).read_text(encoding="utf-8")
MOST_WORDS = 700


def test_it_is_short() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_it_uses_the_terms_of_the_field() -> None:
    for term in (
        "off-policy evaluation",
        "contextual bandit",
        "behaviour policy",
        "anytime-valid confidence sequences",
        "incumbent",
    ):
        assert term in " ".join(README.split()), term


def test_the_example_prints_what_it_shows(tmp_path: Path) -> None:
    reader = page_steps.follow(f"../{NAME}", tmp_path)
    _, printed = reader.printed[0]
    assert "Certified: with probability at least 95 %" in printed and "Verified: " in printed
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")[:1000]


def test_the_gain_is_the_bound_that_is_shown_rounded_down() -> None:
    (shown,) = (block for block in blocks_of(NAME) if block.language == "text")
    bound, unit = re.findall(r"earns at least ([\d.]+) (\w+) more per decision", shown.text)[0]
    gain, same = re.findall(r"policy earns at least ([\d.]+) (\w+) more for each part", README)[0]
    assert (float(gain), same) == (math.floor(float(bound) * 100) / 100, unit)


def test_commands_named_in_the_readme_exist() -> None:
    from aegis.cli import COMMANDS

    named = re.findall(r"^aegis ([a-z]+)", README, flags=re.M)
    assert named == ["dataset", "learn", "certify", "verify"]
    assert set(named) <= set(COMMANDS)


def test_the_tutorial_begins_with_the_same_requests() -> None:
    """Another request on the same data would be refused: a reader who did one must be able to do the other."""
    tutorial = "\n".join(block.text for block in blocks_of("docs/tutorial.md") if block.language == "sh")
    for line in re.findall(r"^aegis .*", README, flags=re.M):
        assert " ".join(line.split()) in tutorial


def test_both_make_targets_exist_and_ci_runs_the_tests() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    for target in ("demo", "test", "check", "soak", "docs", "screenshots", "wheel", "release-check", "clean"):
        assert re.search(rf"^{target}:", makefile, flags=re.M)
    assert "make test" in (Path(__file__).parents[1] / ".ci" / "run").read_text()


def test_every_public_name_is_there() -> None:
    for name in aegis.__all__:
        assert getattr(aegis, name) is not None
    assert set(dir(aegis)) == set(aegis.__all__)


def test_importing_aegis_is_light() -> None:
    code = "import sys, aegis; print(sorted({'numpy', 'scipy', 'pyarrow', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
