"""The request of a handover: options over a file, and errors that name file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typed import run as aegis

pytestmark = pytest.mark.usefixtures("coarse_oracle")

QUICK: tuple[object, ...] = (
    *("--set", "f_a=2.0", "--set", "inner_steps=3", "--host", "greedy", "--caps", "2"),
    *("--gate-set", "upgrades=false", "--episodes", 60, "--seed", 1),
)


def result(*arguments: object, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what the quick run, with some options, prints as JSON."""
    code, out, err = aegis("handover", *QUICK, *arguments, "--json", capsys=capsys)
    assert code == 0, err
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_file_says_the_same_as_options_which_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        "world: additive\nset: {f_a: 2.0, inner_steps: 3}\nhost: greedy\ncaps: [2]\n"
        "gate-set:\n  upgrades: false\nepisodes: 60\nseed: 1\nmargin: {meta: 0.1}\ndelta: 0.05\npreset: null\n"
    )
    typed = result("--margin", "meta=0.1", "--out", tmp_path / "typed", capsys=capsys)
    code, out, err = aegis("handover", "--config", config, "--out", tmp_path / "read", "--json", capsys=capsys)
    assert code == 0, err
    assert json.loads(out)["events"] == typed["events"]
    assert (tmp_path / "typed" / "events.jsonl").read_bytes() == (tmp_path / "read" / "events.jsonl").read_bytes()
    over = ("--episodes", 30, "--delta", 0.1, "--set", "f_a=1.5", "--gate-set", "generations=1")
    code, out, _ = aegis("handover", "--config", config, *over, "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0 and found["episodes"] == 30
    assert found["settings"] == {"f_a": 1.5, "inner_steps": 3}
    assert (found["gate_settings"]["delta"], found["gate_settings"]["generations"]) == (0.1, 1)
    assert found["gate_settings"]["caps"] == [2.0]


FILES = {
    "unknown key": (
        "world: additive\nepsiodes: 3\n",
        "run.yaml, line 2: unknown key 'epsiodes' (did you mean 'episodes'?); allowed",
    ),
    "text for a number": ("# a run\n\nepisodes: many\n", "run.yaml, line 3: 'episodes' is a whole number from 1, found 'many'"),
    "half an episode": ("episodes: 3.5\n", "line 1: 'episodes' is a whole number from 1, found 3.5"),
    "no episodes": ("episodes: 0\n", "line 1: 'episodes' is a whole number from 1, found 0"),
    "truth for a number": ("delta: true\n", "line 1: 'delta' is a number, found True"),
    "one cap": ("caps: 2\n", "line 1: 'caps' is a list, found 2"),
    "a table that is none": ("set: f_a=2\n", "line 1: 'set' is a mapping"),
    "a margin that is none": ("margin: {inner: much}\n", "line 1: 'margin' is a number or a mapping"),
    "a key twice": ("seed: 1\nseed: 2\n", "the key 'seed' is given twice"),
    "a list": ("- 1\n", "a mapping of options to values is expected"),
    "not YAML": ("world: [\n", "not valid YAML"),
    "twice by different names": ("delta: 0.1\ngate-set: {delta: 0.2}\n", "'delta' of the gate is given twice (run.yaml)"),
    "unknown gate setting": ("gate-set: {patients: 2}\n", "did you mean 'patience'"),
    "unknown gate setting, nested": (
        "seed: 1\ngate-set:\n  first: 20\n  generation: 2\n",
        "run.yaml, line 4: unknown key 'generation' in 'gate-set' (did you mean 'generations'?); allowed: delta",
    ),
    "unknown setting of a world": ("set: {f_a: 1, f_b: 3}\n", "run.yaml, line 1: unknown key 'f_b' in 'set' (did you mean"),
    "a setting of another gate": ("gate: published\ngate-set: {caps: [2]}\n", "run.yaml, line 2: unknown key 'caps'"),
    "a margin of an unknown level": ("margin:\n  iner: 1\n", "unknown level of --margin (run.yaml, line 2) 'iner'"),
    "empty text": ("world: ''\n", "line 1: 'world' is a text"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_bad_file_is_named_with_the_line(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, expected = FILES[what]
    Path("run.yaml").write_text(text)
    code, out, err = aegis("handover", "--config", "run.yaml", "--out", "run", capsys=capsys)
    assert code == 2 and expected in err
    assert "Traceback" not in err + out and not Path("run").exists()
