"""A recorded log judged by Algorithm 2, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typed import run as aegis

from aegis.cli.config import merge_request
from aegis.cli.log_looks import judge_request
from aegis.errors import SettingError

SMALL = ("--world", "additive", "--set", "f_a=2.0", "--set", "inner_steps=3", "--legacy", "sign:epsilon=0.0")


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return the folder of a simulated log of the legacy."""
    code, _, err = aegis("simulate", *SMALL, "--episodes", 60, "--out", tmp_path / "log", capsys=capsys)
    assert code == 0, err
    return tmp_path / "log"


def test_a_recorded_log_is_judged_and_called_what_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = ("handover", "--gate", "published", "--log", folder / "log.parquet", "--problem", folder / "problem.yaml")
    settings = ("--gate-set", "rewards=scaled", "--gate-set", "stride=20", "--margin", "inner=-100")
    code, out, _ = aegis(*log, *settings, capsys=capsys)
    assert code == 0
    words = " ".join(out.split())
    assert words.startswith(
        "As published, not a certificate: within 60 episodes Algorithm 2 would have handed over 'inner' after"
    )
    remedy = "state the incumbent of 'inner' in the problem file, or name the policy that wrote the log (--legacy)"
    assert f"Not judged: 'meta': its plan needs what the legacy does below: {remedy}" in words
    assert "probabilities of all actions" not in words  # the log has them; a plan asks beyond the logged contexts
    code, out, _ = aegis(*log, *settings, "--json", capsys=capsys)
    plain = json.loads(out)
    assert (plain["label"], plain["certificate"]) == ("as published, not a certificate", False)
    assert plain["levels"] == [{"level": "inner", "flip": 20, "id": plain["levels"][0]["id"], "gain": plain["levels"][0]["gain"]}]
    assert plain["gate_settings"]["stride"] == 20
    assert [look["episode"] for look in plain["looks"]] == [20, 40, 60]
    assert (plain["looks"][0]["gain"], plain["looks"][0]["margin"]) == (plain["levels"][0]["gain"], pytest.approx(-100))
    assert f"{plain['looks'][-1]['gain']:.4g}" in words and "The last look at each scope, in units of the reward" in words


def test_a_request_in_a_file_judges_a_log_too(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        f"gate: published\nlog: [{folder / 'log.parquet'}]\nproblem: {folder / 'problem.yaml'}\n"
        "host: greedy\nseed: 2\ngate-set: {stride: 30, levels: [inner]}\n"
    )
    outcome, plain = judge_request(merge_request({}, config))
    assert outcome.flips.keys() == {"inner"}
    assert (plain["host"], plain["seed"], plain["gate_settings"]["levels"]) == ("greedy", 2, ["inner"])


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"log": ["a.csv"], "gate": "published"}, "give --log and --problem"),
        ({"problem": Path("p.yaml"), "gate": "published"}, "give --log and --problem"),
        ({"log": ["a.csv"], "problem": Path("p.yaml")}, "--log is for --gate published, which is not a certificate"),
        ({"log": ["a.csv"], "problem": Path("p.yaml"), "gate": "published", "episodes": 5}, "leave out --episodes"),
        ({"log": ["a.csv"], "problem": Path("p.yaml"), "gate": "published", "out": Path("run")}, "leave out --out"),
        ({"log": ["a.csv"], "problem": Path("p.yaml"), "gate": "published", "set": {"f_a": 1}}, "leave out --set"),
        ({"log": ["a.csv"], "problem": Path("p.yaml"), "gate": "published", "host-log": Path("b.csv")}, "leave out --host-log"),
        ({"gate": "published", "host": "pessimistic", "host-log": Path("b.csv")}, "data-free p0 and reads no earlier log"),
    ],
)
def test_what_does_not_go_with_a_log_is_refused(typed: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        merge_request(typed, None)


def test_a_level_without_a_number_shows_the_reason(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = ("handover", "--gate", "published", "--log", folder / "log.parquet", "--problem", folder / "problem.yaml")
    settings = ("--gate-set", "optimal_lambda=false", "--gate-set", "levels=[inner]")  # 1/sqrt(K) needs K above B^2
    code, out, err = aegis(*log, *settings, capsys=capsys)
    assert code == 0, err
    says = "No number at 'inner' in its last look: the estimate does not exist for these values."
    assert says in " ".join(out.split())


@pytest.mark.parametrize("legacy", ["sign:epsilon=0.0", "uniform"])
def test_a_log_has_no_legacy_by_name(folder: Path, capsys: pytest.CaptureFixture[str], legacy: str) -> None:
    log = ("handover", "--gate", "published", "--log", folder / "log.parquet", "--problem", folder / "problem.yaml")
    code, _, err = aegis(*log, "--legacy", legacy, capsys=capsys)
    assert code == 2
    assert "as a policy folder or module:object; legacies by name are those of simulated worlds" in " ".join(err.split())
    assert "With --log: who wrote it, a policy folder or module:object" in " ".join(
        aegis("handover", "--help", capsys=capsys)[1].split()
    )


def test_a_legacy_of_ones_own_is_planned_through(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "from aegis.worlds import make_world\n\nworld = make_world('additive', f_a=2.0, inner_steps=3)\n"
    (tmp_path / "own_legacy.py").write_text(f"{code}legacy = world.legacy('sign:epsilon=0.0')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    log = ("handover", "--gate", "published", "--log", folder / "log.parquet", "--problem", folder / "problem.yaml")
    code, out, err = aegis(*log, "--gate-set", "rewards=scaled", "--legacy", "own_legacy:legacy", "--json", capsys=capsys)
    assert code == 0, err
    assert json.loads(out)["left_out"] == {}


def test_a_log_takes_no_word_of_an_operator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = ("handover", "--gate", "published", "--log", folder / "log.parquet", "--problem", folder / "problem.yaml")
    code, _, err = aegis(*log, "--operator", "pause", "--who", "ann", "--why", "so", capsys=capsys)
    assert code == 2
    assert "a recorded log has none" in err
