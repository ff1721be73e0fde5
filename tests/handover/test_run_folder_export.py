"""The log of a run in which an agent acted is audited and certified on, over the incumbent that the gate compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from aegis.agents import learn
from aegis.audit import audit_log
from aegis.certificate import certify
from aegis.handover import HOSTS, GateSettings, Handover, problem_as_logged, run_in_folder
from aegis.logs import Source
from aegis.policies import with_incumbent
from aegis.problem import Incumbent, load_problem
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=4)
SETTINGS = GateSettings(levels=("inner",), upgrades=False)


def ran(folder: Path, legacy: str, stated: bool, episodes: int) -> Handover:
    plant = make_world("additive", inner_steps=4)
    if stated:
        object.__setattr__(plant, "problem", with_incumbent(WORLD.problem, WORLD.legacy(legacy)))
    run = Handover(plant, WORLD.legacy(legacy), HOSTS["greedy"](), SETTINGS, 1)
    run_in_folder(folder, run, episodes, ledger=folder / "ledger")
    return run


@pytest.mark.parametrize("stated", [True, False])
def test_a_log_with_an_agent_in_it_is_read_with_the_problem_for_others(tmp_path: Path, stated: bool) -> None:
    assert ran(tmp_path, "sign:epsilon=0.3", stated, 200).deployed
    own, others = (
        Source(tmp_path / "log.parquet", load_problem(tmp_path / name)) for name in ("problem.yaml", "problem-others.yaml")
    )
    assert ("incumbent-impossible" in audit_log(own).codes("refused")) == stated
    assert not audit_log(others).codes("refused")
    (level,) = [level for level in others.problem.levels if level.name == "inner"]
    assert level.incumbent is not None and level.incumbent.epsilon is None
    assert dict(level.incumbent.policy)["kind"] == "sign" and others.problem.time == "episode"  # type: ignore[arg-type]
    learned = learn(others, scope=["inner"])
    assert learned.split.kind == "time"
    certificate = certify(others, learned, ledger=False)
    assert certificate.verdict.verdict != "refused" and "the rule 'sign'" in certificate.levels[0].comparator


def test_a_legacy_that_explores_everywhere_is_the_incumbent_of_its_log(tmp_path: Path) -> None:
    run = ran(tmp_path, "uniform", False, 100)
    assert run.deployed
    others = Source(tmp_path / "log.parquet", load_problem(tmp_path / "problem-others.yaml"))
    assert dict(others.problem.level("inner").incumbent.policy) == {"kind": "uniform"}  # type: ignore[union-attr,arg-type]
    assert not audit_log(others).codes("refused")


def test_nothing_changes_where_nothing_was_handed_over() -> None:
    problem = with_incumbent(WORLD.problem, WORLD.legacy("sign:epsilon=0.3"))
    assert problem_as_logged(problem, (), {"inner": Incumbent(policy="uniform")}, "episode") == problem
