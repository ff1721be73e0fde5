"""A log whose propensities follow earlier rewards: the advice of each command works when it is followed."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aegis.agents import CandidateSettings
from aegis.agents import learn as learn_tuned
from aegis.certificate import certify
from aegis.cli import main
from aegis.errors import PolicyError
from aegis.logs import Source, Split
from aegis.mechanisms import MODELS
from aegis.problem import parse_problem
from aegis.rng import stream

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))

from interference_logs import PROBLEM, following, problem_of

learn = functools.partial(learn_tuned, models=MODELS)  # without the search for length-scales, which is slow


def moving(count: int = 900) -> pa.Table:
    """Return a log whose legacy takes an action again after it earned more than usual."""
    return following(stream(6, "a legacy that follows rewards"), count)[0]


def test_learning_splits_in_time_where_propensities_move() -> None:
    source = Source(moving(), problem_of("time: k"))
    found = learn(source, 0.4)
    assert (found.split.kind, found.split.fraction, found.split.cut) == ("time", 0.4, 360)
    assert any("split in time" in item for item in found.record["warnings"])
    assert certify(source, found, what=["gain"], ledger=False).verdict.verdict == "certified"


@pytest.mark.parametrize("head", ["", "time: k"])
def test_a_split_by_hash_is_learned_with_a_warning_that_holds(head: str) -> None:
    source = Source(moving(), problem_of(head))
    found = learn(source, Split() if head else None)
    (warning,) = [item for item in found.record["warnings"] if "will refuse" in item]
    assert found.split == Split() and "under 'time'" in warning and "--fresh" in warning
    assert certify(source, found, what=["gain"], ledger=False).verdict.verdict == "refused"
    later = moving(1200).slice(900)
    fresh = certify(Source(later, source.problem), found, what=["gain"], ledger=False, fresh=True)
    assert fresh.verdict.verdict != "refused"


def test_a_log_of_one_policy_is_split_by_hash_without_a_warning() -> None:
    rng = stream(1, "one policy")
    action = rng.integers(0, 2, 300)
    half = np.full(300, 0.5)
    columns = {"k": np.arange(300), "x": rng.random(300), "a": action, "p0": half, "p1": half, "r": rng.random(300)}
    found = learn(Source(pa.table(columns), problem_of("time: k")))
    assert found.split == Split() and not found.record["warnings"]


def test_the_advice_of_a_capped_candidate_works_when_followed() -> None:
    untimed, timed = (Source(moving(), problem_of(head)) for head in ("", "time: k"))
    with pytest.raises(PolicyError, match=r"--kind stepped.*kind 'greedy'.*name a 'time' column"):
        learn(untimed, settings=CandidateSettings("capped"))
    with pytest.raises(PolicyError, match=r"--kind stepped.*kind 'greedy'$"):
        learn(timed, settings=CandidateSettings("capped"))
    assert certify(timed, learn(timed), what=["gain"], ledger=False).verdict.verdict == "certified"
    text = PROBLEM.format(low=0, high=1, head="time: k") + "    incumbent: {columns: [h0, h1], max_ratio: 2.5}\n"
    half = pa.array(np.full(900, 0.5))
    stated = Source(moving().append_column("h0", half).append_column("h1", half), parse_problem(text))
    stepped = learn(stated, settings=CandidateSettings("stepped"))
    assert stepped.split.kind == "time"
    assert certify(stated, stepped, what=["gain"], ledger=False).verdict.verdict != "refused"


def test_the_commands_follow_the_same_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(moving(), tmp_path / "log.parquet")
    (tmp_path / "problem.yaml").write_text(PROBLEM.format(low=0, high=1, head="time: k"))
    asked = [str(tmp_path / "log.parquet"), "--problem", str(tmp_path / "problem.yaml")]

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        return int(str(ended.value)), " ".join(capsys.readouterr().out.split())

    code, out = run("learn", *asked, "--out", str(tmp_path / "hash"), "--split", "hash")
    assert code == 0 and "will refuse the policy on this log" in out
    code, out = run("certify", *asked, "--policy", str(tmp_path / "hash"), "--ledger", str(tmp_path / "one"))
    assert code == 4 and "--split time" in out
    code, out = run("learn", *asked, "--out", str(tmp_path / "timed"))
    assert code == 0 and "taken in time, before 450" in out
    code, out = run("certify", *asked, "--policy", str(tmp_path / "timed"), "--ledger", str(tmp_path / "two"))
    assert code == 0, out


@pytest.mark.parametrize("head", ["", "time: k"])
def test_what_learned_nothing_may_be_certified_where_propensities_move(head: str) -> None:
    """It is independent of every unit; the earliest ones place its bets, as those of any policy from elsewhere."""
    source = Source(moving(), problem_of(head))
    found = learn(source, 0.0)
    assert found.split == Split(fraction=0.0)
    certificate = certify(source, found, what=["gain"], ledger=False)
    assert certificate.verdict.verdict != "refused"
    assert {level.units for level in certificate.levels} == {900 - 45}
