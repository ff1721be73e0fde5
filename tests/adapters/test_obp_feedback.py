"""obp's feedback dictionary: round trips, positions, what it cannot say, and its IPS by hand against ours."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import one_level
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.adapters import action_dist, from_feedback, load_feedback, save_feedback, to_feedback
from aegis.cli import main
from aegis.comparison import compare
from aegis.errors import LogError, SettingError
from aegis.logs import Source
from aegis.policies import Function
from aegis.problem import parse_problem, save_problem
from aegis.rng import stream


def feedback(count: int = 300, actions: int = 4, places: int = 1, full: bool = True, seed: int = 1) -> dict[str, Any]:
    """Return a dictionary as obp's simulators and data sets make it."""
    rng = stream(seed, "obp")
    context = rng.normal(size=(count, 2))
    position = rng.integers(0, places, count)
    pi_b = rng.dirichlet(np.ones(actions), size=(count, places)).transpose(0, 2, 1) * 0.8 + 0.2 / actions
    rows = np.arange(count)
    chances = pi_b[rows, :, position]
    action = (rng.random(count)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(count) < 0.2 + 0.5 * (action == (context[:, 0] > 0))).astype(int)
    found = {
        "n_rounds": count,
        "n_actions": actions,
        "context": context,
        "action_context": np.eye(actions),
        "action": action,
        "position": position if places > 1 else None,
        "reward": reward,
        "expected_reward": None,
        "pscore": chances[rows, action],
    }
    return {**found, "pi_b": pi_b} if full else found


def better(level: Any, rows: Any) -> Any:
    """Return a policy that knows: action 1 if x0 is above 0, else action 0, and something else a fifth of the time."""
    count = level.actions.count
    best = (rows["x0"] > 0).astype(int)
    return 0.8 * (np.arange(count) == best[:, None]) + 0.2 / count


@settings(max_examples=15, deadline=None)
@given(count=st.integers(2, 40), actions=st.integers(2, 5), places=st.integers(1, 3), full=st.booleans(), seed=st.integers(0, 99))
def test_a_dictionary_comes_back_as_it_was(count: int, actions: int, places: int, full: bool, seed: int) -> None:
    given = feedback(count, actions, places, full, seed)
    made = from_feedback(given, (0, 1))
    found = to_feedback(made.source.read(), made.problem)
    several = made.problem.innermost.context[-1].name == "position"
    for key in ("n_rounds", "n_actions", "context", "action", "reward", "pscore"):
        np.testing.assert_array_equal(found[key], given[key])
    if several:
        np.testing.assert_array_equal(found["position"], given["position"])
    elif full:
        np.testing.assert_array_equal(found["pi_b"], given["pi_b"][:, :, :1])
    assert (found["position"] is None) == (not several)


def test_a_log_of_ours_goes_out_and_in() -> None:
    source = one_level.source_of(50, masked=False)
    batch = source.read()
    out = to_feedback(batch, source.problem)
    assert out["context"].shape == (50, 3)  # age, and an indicator for each ward
    assert out["context"][:, 1:].sum() == 50
    again = from_feedback(out, (0, 1)).source.read().levels["choice"]
    np.testing.assert_array_equal(again.mu_full, batch.levels["drug"].mu_full)
    np.testing.assert_array_equal(again.action, batch.levels["drug"].action)


def test_the_ips_that_obp_computes_is_ours() -> None:
    made = from_feedback(feedback(400), (0, 1))
    policy = Function(made.problem, better)
    batch = made.source.read()
    ours = compare(made.source, policy, scope=["choice"], ledger=False)
    out, chosen = to_feedback(batch, made.problem), action_dist(policy, batch, made.problem)
    assert chosen.shape == (400, 4, 1)
    certified = np.isin(batch.episode, _certified(made.source))
    total = 0.0
    for row in np.flatnonzero(certified):  # obp: the mean of r pi / pscore over rounds
        total += out["reward"][row] * chosen[row, out["action"][row], 0] / out["pscore"][row]
    ips = ours.estimate("IPS", "value")
    assert ips is not None and ips.units == certified.sum()
    assert ips.value == pytest.approx(total / certified.sum(), rel=1e-12)


def _certified(source: Source) -> np.ndarray:
    """Return the rounds that a policy from elsewhere is certified on: all but those set apart to place bets."""
    from aegis.certificate.unit_split import placing_split

    batch = source.read()
    return batch.episode[placing_split(len(batch)).on_side("certify", source.problem, batch)]


def test_a_policy_is_asked_at_every_position() -> None:
    made = from_feedback(feedback(30, places=3), (0, 1))
    assert any("3 positions" in note and "one cluster" in note for note in made.notes)

    def by_position(level: Any, rows: Any) -> Any:
        return np.eye(4)[rows["position"]]

    chosen = action_dist(Function(made.problem, by_position), made.source.read(), made.problem)
    assert chosen.shape == (30, 4, 3)
    np.testing.assert_array_equal(chosen, np.broadcast_to(np.eye(4)[:, :3], (30, 4, 3)))


def test_rounds_of_one_page_are_one_unit_if_they_are_named() -> None:
    pages = np.repeat(np.arange(10), 3)
    made = from_feedback(feedback(30, places=3), (0, 1), cluster=pages)
    batch = made.source.read()
    assert batch.cluster is not None and batch.cluster.tolist() == pages.tolist()
    assert not any("one cluster" in note for note in made.notes)
    with pytest.raises(LogError, match="names the unit of each of 30 rounds"):
        from_feedback(feedback(30), cluster=[1])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("pscore", None, "has no 'pscore'; .* nothing can be certified from it"),
        ("n_rounds", 2.5, "is a whole number"),
        ("n_actions", 1, "key 'n_actions' is a whole number from 2, found 1"),
        ("reward", np.zeros(3), r"key 'reward': has the shape \[3\], expected \[20\]"),
        ("reward", ["a"] * 20, "key 'reward': expected numbers"),
        ("reward", np.full(20, np.nan), r"key 'reward', round 0 \(from 0\): is not finite"),
        ("action", np.full(20, 4), r"key 'action', round 0 \(from 0\): found 4; expected a whole number from 0, below 4"),
        ("action", np.full(20, 0.5), "expected a whole number"),
        ("pscore", np.zeros(20), r"key 'pscore', round 0 .*: found 0; the action taken had a probability above 0"),
        ("pscore", np.full(20, 0.999), "'pi_b' gives the action taken"),
        ("pi_b", np.full((20, 4, 1), 0.3), r"key 'pi_b', round 0 .* is no distribution \(sum 1.2\)"),
        ("pi_b", np.zeros((20, 4)), r"key 'pi_b': has the shape \[20, 4\]"),
        (
            "pi_b",
            np.full((20, 4, 2), 0.25),
            "has 2 positions, and 'position', which tells a round's own, goes up to 0 or is missing",
        ),
        ("position", np.full(20, 2), "has 1 positions, and 'position', which tells a round's own, goes up to 2"),
        ("context", np.zeros(20), "key 'context': has the shape"),
    ],
)
def test_what_does_not_fit_is_said_with_key_and_round(key: str, value: Any, message: str) -> None:
    given = {**feedback(20), key: value}
    with pytest.raises(LogError, match=message):
        from_feedback(given)


def test_what_a_dictionary_cannot_say_is_refused() -> None:
    masked = one_level.source_of(30)
    with pytest.raises(LogError, match="not available in some rounds"):
        to_feedback(masked.read(), masked.problem)
    problem = parse_problem("""
episode: visit
reward: {column: score, range: [0, 1]}
levels: [{name: dose, context: [age], action: {column: dose, values: [1, 2]}, propensity: {policy: uniform}}]
""")
    table = pa.table({"visit": [1, 1, 2], "age": [1.0, 2.0, 3.0], "dose": [1, 2, 1], "score": [0.5, 0.5, 1.0]})
    with pytest.raises(LogError, match="episodes have 1 to 2 decisions"):
        to_feedback(Source(table, problem).read(), problem)
    missing = pa.table({"visit": [1, 2], "age": [1.0, 2.0], "dose": [1, 2], "score": [0.5, None]})
    with pytest.raises(LogError, match="rewards are missing"):
        to_feedback(Source(missing, problem).read(), problem)
    from aegis.worlds import make_world

    world = make_world("additive")
    with pytest.raises(LogError, match="has the levels meta, inner"):
        to_feedback(world.episodes(0, 2, world.legacy("uniform"), 1), world.problem)


def test_files_are_plain_arrays_and_never_pickles(tmp_path: Path) -> None:
    given = feedback(20, places=2)
    save_feedback(given, tmp_path / "feedback.npz")
    found = load_feedback(tmp_path / "feedback.npz")
    assert found["n_rounds"] == 20 and isinstance(found["n_rounds"], int) and "expected_reward" not in found
    np.testing.assert_array_equal(found["pi_b"], given["pi_b"])
    (tmp_path / "feedback.pkl").write_bytes(pickle.dumps(given))
    with pytest.raises(LogError, match=r"cannot be read as an \.npz file of plain arrays"):
        load_feedback(tmp_path / "feedback.pkl")
    np.savez(tmp_path / "objects.npz", action=np.array([{}], dtype=object))
    with pytest.raises(LogError, match="needs no pickle"):
        load_feedback(tmp_path / "objects.npz")
    with pytest.raises(LogError, match="holds Python objects"):
        save_feedback({"action": np.array([{}], dtype=object)}, tmp_path / "x.npz")
    with pytest.raises(SettingError, match=r"written as \.npz"):
        save_feedback(given, tmp_path / "x.pkl")


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_the_command_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = feedback(60)
    save_feedback(given, tmp_path / "in.npz")
    assert run("convert", tmp_path / "in.npz", "--from", "obp", "--reward-range", 0, 1, "--out", tmp_path / "log", "--json") == 0
    assert json.loads(capsys.readouterr().out)["full_propensities"] is True
    log = [tmp_path / "log" / "log.parquet", "--problem", tmp_path / "log" / "problem.yaml"]
    (tmp_path / "knows_best.py").write_text("from test_obp_feedback import better\n")
    monkeypatch.chdir(tmp_path)
    code = run("convert", *log, "--to", "obp", "--policy", "knows_best:better", "--out", tmp_path / "out.npz", "--json")
    assert code == 0 and "action_dist" in json.loads(capsys.readouterr().out)["keys"]
    found = load_feedback(tmp_path / "out.npz")
    np.testing.assert_array_equal(found["pscore"], given["pscore"])
    np.testing.assert_allclose(found["action_dist"].sum(axis=1), 1.0)
    assert run("convert", *log, "--to", "obp", "--out", tmp_path / "out.npz") == 2
    assert "--force" in capsys.readouterr().err


def test_exported_problems_keep_their_labels(tmp_path: Path) -> None:
    made = from_feedback(feedback(5), (0, 1))
    save_problem(made.problem, tmp_path / "problem.yaml")
    from aegis.problem import load_problem

    assert load_problem(tmp_path / "problem.yaml") == made.problem
