"""The paper's choice of the safest scope: transcribed in plain loops, never a certificate, and reachable by one command."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from aegis.agents import fit_mechanisms
from aegis.cli import main
from aegis.comparison import POSTERIOR_CHOICE, ComparisonSettings, choose_published_scope
from aegis.comparison.published_bounds import DRAWS_UNPAID, learn_posterior
from aegis.comparison.published_scopes import NEVER_TAKEN, NO_UNION
from aegis.comparison.unit_series import CertifiedLog
from aegis.errors import SettingError
from aegis.logs import Source, Split, write_log
from aegis.mechanisms import MODELS
from aegis.problem import Propensity, load_problem, save_problem
from aegis.worlds import make_world

DELTA, PARTICLES = 0.05, 5
SCOPES = ("meta + inner", "meta", "inner")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of the additive world under a uniform legacy that the problem knows, and its problem file."""
    place = tmp_path_factory.mktemp("scopes")
    world = make_world("additive", inner_steps=2, inner_points=5, outer_points=3)
    levels = tuple(replace(level, propensity=Propensity(policy="uniform")) for level in world.problem.levels)
    problem = replace(world.problem, levels=levels)
    write_log(world.episodes(0, 90, world.legacy("uniform"), 5), problem, place / "log.parquet")
    save_problem(problem, place / "problem.yaml")
    return place


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    return Source(folder / "log.parquet", load_problem(folder / "problem.yaml"))


def typed(*words: str) -> None:
    """Run a command that must end well."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 0


def kl_by_hand(after, before) -> float:
    """Return KL between two Normal-Inverse-Gamma posteriors, one target coordinate after the other."""
    one, other = after.moments(), before.moments()
    p1, p0 = one.factor @ one.factor.T, other.factor @ other.factor.T
    total = 0.0
    for column in range(one.mean.shape[1]):
        apart = one.mean[:, column] - other.mean[:, column]
        a1, a0, b1, b0 = one.shape, other.shape, float(one.rate[column]), float(other.rate[column])
        gaussian = np.linalg.slogdet(p1)[1] - np.linalg.slogdet(p0)[1] + np.trace(p0 @ np.linalg.inv(p1)) - len(apart)
        total += 0.5 * (gaussian + a1 / b1 * apart @ p0 @ apart)
        total += (a1 - a0) * digamma(a1) - gammaln(a1) + gammaln(a0) + a0 * math.log(b1 / b0) + a1 * (b0 - b1) / b1
    return float(total)


def by_hand(source: Source, alpha: float, scope: str, delta: float) -> dict[str, float]:
    """Return B, KL, lambda*, the estimate and the bound of a scope, decision by decision."""
    problem, names, split = source.problem, scope.split(" + "), Split(fraction=alpha)
    settings = ComparisonSettings(posterior=True, particles=PARTICLES)
    log = CertifiedLog.of_split(source, split)
    policy = learn_posterior(log, split, problem.scope(names), settings).policy
    units = source.read(side="certify", split=split)
    start = fit_mechanisms(source, split, problem.scope(names), MODELS).belief
    end = start.update(units)
    divergence = sum(kl_by_hand(end.states[name], start.states[name]) for name in problem.mechanisms(names))
    low, high = problem.reward.range
    particles = len(policy.weights)
    ratios = {}
    for name in names:
        table = units.levels[name]
        count = problem.level(name).actions.count
        chances = policy.full(name, units)
        ratios[name] = [[chances[n, row, int(table.action[row])] * count for row in range(len(table))] for n in range(particles)]
    above = units.ancestors("inner")["meta"]
    largest, losses = 0.0, [[0.0] * particles for _ in range(len(units))]
    owners = units.episode_of("inner")
    sizes = [sum(owner == episode for owner in owners) for episode in range(len(units))]
    for row, reward in enumerate(units.reward):
        for n in range(particles):
            weight = math.prod(ratios[name][n][row if name == "inner" else int(above[row])] for name in names)
            largest = max(largest, weight)
            losses[int(owners[row])][n] += weight * (float(reward) - low) / (high - low) / sizes[int(owners[row])]
    count, cost = len(losses), divergence + math.log(1.0 / delta)
    second = sum(sum((largest - loss) ** 2 for loss in unit) / particles for unit in losses) / count
    lam = min(0.95 / largest, math.sqrt(2.0 * cost / (count * second)))
    logs = sum(sum(math.log(1.0 - lam * (largest - loss)) for loss in unit) / particles for unit in losses)
    estimate = largest + logs / (lam * count)
    value = low + (high - low) * (estimate - cost / (lam * count))
    return {"B": largest, "kl": divergence, "lam": lam, "estimate_scaled": estimate, "value": value}


@pytest.mark.parametrize("alpha", [0.5, 0.0])
def test_every_number_is_that_of_the_transcription(source: Source, alpha: float) -> None:
    found = choose_published_scope(source, alpha=alpha, delta=DELTA, particles=PARTICLES)
    assert set(found.bounds) == set(SCOPES) and found.method == POSTERIOR_CHOICE
    expected = {scope: by_hand(source, alpha, scope, DELTA / 3) for scope in SCOPES}
    for scope, numbers in expected.items():
        bound = found.bounds[scope]
        assert bound.delta == DELTA / 3 and bound.provenance["alpha"] == alpha
        for name in ("B", "kl", "lam", "estimate_scaled"):
            assert bound.provenance[name] == pytest.approx(numbers[name], rel=1e-9), (scope, name)
        assert bound.value == pytest.approx(numbers["value"], rel=1e-9)
    assert found.name == max(expected, key=lambda scope: expected[scope]["value"])


def test_the_scopes_differ_in_weights_mechanisms_and_policy(source: Source) -> None:
    bounds = choose_published_scope(source, particles=PARTICLES).bounds
    inner, both = bounds["inner"].provenance, bounds["meta + inner"].provenance
    assert inner["B"] < both["B"] <= 15.0 and set(inner["kl_by_mechanism"]) < set(both["kl_by_mechanism"])
    assert 1.0 / both["B"] > both["lam"] and inner["lam"] != both["lam"]


def test_it_is_never_a_certificate_and_says_why(source: Source) -> None:
    found = choose_published_scope(source, particles=PARTICLES)
    assert not found.certificate and found.label.startswith("not a certificate")
    for bound in found.bounds.values():
        assert not bound.certificate and DRAWS_UNPAID in bound.unmet
        assert {"B is the largest weight observed in the certified units", "lam was chosen on the certified units"} <= set(
            bound.unmet
        )


def test_the_price_of_comparing_scopes_can_be_left_out_and_is_then_named(source: Source) -> None:
    paid, free = (choose_published_scope(source, particles=PARTICLES, union=union) for union in (True, False))
    for scope in SCOPES:
        assert free.bounds[scope].delta == 3 * paid.bounds[scope].delta and free.bounds[scope].value > paid.bounds[scope].value
        assert NO_UNION in free.bounds[scope].unmet and NO_UNION not in paid.bounds[scope].unmet


def test_some_scopes_alone_and_none_at_all(source: Source) -> None:
    found = choose_published_scope(source, [["inner"], ["meta"]], particles=PARTICLES)
    assert set(found.bounds) == {"inner", "meta"}
    for scopes in ([], [[]]):
        with pytest.raises(SettingError, match="name one or more scopes"):
            choose_published_scope(source, scopes)


def simulated(place: Path, episodes: int) -> list[str]:
    """Write a log of a legacy that hardly explores; return it as the command line names it."""
    world = make_world("additive", f_a=2.0, inner_steps=2, inner_points=5, outer_points=3)
    problem, legacy = world.problem, world.legacy("sign:epsilon=0.02")
    write_log(world.episodes(0, episodes, legacy, 1), problem, place / "log.parquet")
    save_problem(problem, place / "problem.yaml")
    return [str(place / "log.parquet"), "--problem", str(place / "problem.yaml")]


def test_a_scope_whose_policy_never_takes_a_logged_action_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = simulated(tmp_path, 30)
    typed("learn", *log, "--fraction", "0.9", "--out", str(tmp_path / "policy"))
    asked = ["compare", *log, "--policy", str(tmp_path / "policy"), "--posterior", "--ledger", str(tmp_path / "ledger")]
    capsys.readouterr()
    typed(*asked, "--json")
    comparison = json.loads(capsys.readouterr().out)
    (choice,) = [item for item in comparison["choices"] if item["method"] == POSTERIOR_CHOICE]
    missing = {item["method"]: item["reason"] for item in comparison["missing"]}
    without = [scope for scope in SCOPES if scope not in choice["bounds"]]
    assert without
    for scope in without:
        reason = missing[f"{POSTERIOR_CHOICE} at {scope}"]
        assert reason.startswith(NEVER_TAKEN) and "a smaller alpha" in reason
    assert {bound["delta"] for bound in choice["bounds"].values()} == {0.025 / 3}  # the share of each scope is as before
    typed(*asked)
    words = " ".join(capsys.readouterr().out.split())
    assert NEVER_TAKEN in words and all(f"{POSTERIOR_CHOICE} at {scope}" in words for scope in without)
    source = Source(tmp_path / "log.parquet", load_problem(tmp_path / "problem.yaml"))
    with pytest.raises(SettingError, match=r"'inner' has no bound: the policy planned .* leave it out of 'scopes'"):
        choose_published_scope(source, [["inner"]], alpha=0.9)


def test_one_command_shows_it_beside_certified_bounds(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = [str(folder / "log.parquet"), "--problem", str(folder / "problem.yaml")]
    typed("learn", *log, "--out", str(tmp_path / "policy"))
    capsys.readouterr()
    asked = ["compare", *log, "--policy", str(tmp_path / "policy"), "--posterior", "--ledger", str(tmp_path / "ledger")]
    typed(*asked)
    words = capsys.readouterr().out
    assert "AS PUBLISHED, NOT A CERTIFICATE: the safest scope to deploy" in words and "candidate, certified" in words
    typed(*asked, "--json")
    choices = {item["method"]: item for item in json.loads(capsys.readouterr().out)["choices"]}
    assert not choices[POSTERIOR_CHOICE]["certificate"] and choices["sharp PAC-Bayes, Q = p0"]["certificate"]
    assert {item["delta"] for item in choices[POSTERIOR_CHOICE]["bounds"].values()} == {0.025 / 3}
