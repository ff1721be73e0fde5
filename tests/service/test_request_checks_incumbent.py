"""Gains of a live gate are over the incumbent: what is sent about it, what is refused, what is kept, and what follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from postgres_server import free_port
from service_cases import (
    ALL,
    GATE,
    QUICK,
    SMALL,
    Here,
    counting_here,
    dose,
    key,
    make_live,
    make_service,
    post,
    recipe,
    records,
    run_plant,
    said,
    served,
    small_plant,
    started,
    told,
)

from aegis.agents import uniform_legacy
from aegis.api import load_candidate
from aegis.audit import audit_log
from aegis.certificate import certify
from aegis.handover import GateSettings, Handover, Host, event_to_plain
from aegis.handover.hosts.external import ExternalHost
from aegis.logs import Source
from aegis.ope import reward_measure
from aegis.policies import StatedIncumbent, without_exploration
from aegis.problem import Batch, Incumbent, Problem, Propensity, Scope, load_problem, parse_problem
from aegis.service.app import Service
from aegis.service.client.gate_client import Client
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.journal_export import export_gate
from aegis.service.live_episodes import LiveEpisode, episodes_to_batch
from aegis.service.live_gate import LiveGate
from aegis.service.live_state import DECISION, EVENT, OVERRULED
from aegis.service.schemas import Ask
from aegis.service.status import GateStatus
from aegis.service.store.database import Database
from aegis.service.trainer import Trainer

DRAWN = SMALL.replace("{column: p_dose}", "{base: meant, epsilon: 0.3}")  # uniform exploration around the incumbent
STATED = SMALL.replace("{column: p_dose}", "{column: p_dose}\n    incumbent: {base: meant, epsilon: 0.2}").replace(
    "{column: p_setting}", "{column: p_setting}\n    incumbent: {columns: [i_slow, i_fast, i_boost], max_ratio: 2}"
)
RULE = SMALL.replace("{column: p_dose}", "{column: p_dose}\n    incumbent: {action: 0, epsilon: 0.2}").replace(
    "{column: p_setting}", "{column: p_setting}\n    incumbent: {policy: {kind: constant, value: slow}}"
)
MEANT = {"action": 0.0, "epsilon": 0.2}
OWN = {"distribution": [0.1, 0.8, 0.1], "incumbent": 0.0}
RECIPE_OWN = {"distribution": [0.5, 0.3, 0.2], "incumbent": [0.8, 0.2, 0.0]}
EXPLORES = {"task_mean": 1.0}  # the incumbent takes the best action, and exploration costs


def stated_recipe(**changed: Any) -> dict[str, Any]:
    """Return the body of a question about the recipe, with its incumbent."""
    return recipe(**{"legacy": RECIPE_OWN, **changed})


def begun(client: httpx.Client, asked: dict[str, Any]) -> str:
    """Open an episode with its outer decision, and return where its decisions are asked for."""
    assert post(client, "/v1/episodes", {"id": "e"}).status_code == 200
    answer = post(client, "/v1/episodes/e/decisions", asked)
    assert answer.status_code == 200, answer.text
    return "/v1/episodes/e/decisions"


def of(service: Service, name: str) -> tuple[float, ...] | None:
    """Return what the gate holds of the incumbent at a decision."""
    return service.live.state.trees["e"].decisions[name].incumbent


@pytest.fixture
def service(file_database: Database) -> Service:
    """Return the service of a gate whose incumbents are sent."""
    return make_service(make_live(file_database, parse_problem(STATED)))


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    """Return a client of it."""
    with served(service) as found:
        yield found


# ---- what is sent ------------------------------------------------------------------------------------------------------------


def test_an_incumbent_is_sent_as_an_action_or_as_probabilities(service: Service, client: httpx.Client) -> None:
    path = begun(client, stated_recipe())
    assert of(service, "r") == (0.8, 0.2, 0.0)
    for name, legacy, expected in (
        ("action", MEANT, (0.0, 1.0, 0.0)),
        ("value", OWN, (0.0, 1.0, 0.0)),
        ("list", {**OWN, "incumbent": [0, 1, 0]}, (0.0, 1.0, 0.0)),
        ("mixed", {"distribution": [0.2, 0.4, 0.4], "incumbent": [0.0, 0.5, 0.5]}, (0.0, 0.5, 0.5)),
        ("taken", {**OWN, "taken": 1.0}, (0.0, 1.0, 0.0)),
    ):
        answer = post(client, path, dose(id=name, legacy=legacy))
        assert answer.status_code == 200, answer.text
        assert of(service, name) == expected
    body = records(service.live, DECISION)[-1].body
    assert (body["incumbent"], body["legacy"]) == ([0.0, 1.0, 0.0], [0.1, 0.8, 0.1])


def test_the_problem_says_what_is_sent_and_over_whom_gains_are(client: httpx.Client) -> None:
    levels = {item["level"]: item for item in client.get("/v1/problem").json()["levels"]}
    assert levels["dose"]["incumbent"] == "sent"
    assert levels["dose"]["comparator"] == "the incumbent (as the control system sends it with each decision)"
    assert {item["comparator"] for item in client.get("/v1/levels").json()} == {levels["dose"]["comparator"]}
    assert [item["comparator"] for item in client.get("/v1/gate").json()["levels"]] == [levels["dose"]["comparator"]] * 2


def test_declared_uniform_exploration_tells_the_incumbent(file_database: Database) -> None:
    service = make_service(make_live(file_database, parse_problem(DRAWN)))
    with served(service) as client:
        path = begun(client, recipe())
        assert of(service, "r") is None  # the recipe states none
        for name, legacy, expected in (
            ("alone", {"distribution": [0.1, 0.1, 0.8]}, [0.0, 0.0, 1.0]),
            ("mixed", {"distribution": [0.45, 0.45, 0.1]}, [0.5, 0.5, 0.0]),
            ("rounded", {"distribution": [0.0999999, 0.1, 0.8000001]}, [0.0, 0.0, 1.0]),
            ("said", {"distribution": [0.1, 0.1, 0.8], "incumbent": 1.0}, [0.0, 0.0, 1.0]),
            ("meant", {"action": 1.0, "epsilon": 0.3}, [0.0, 0.0, 1.0]),
        ):
            answer = post(client, path, dose(id=name, legacy=legacy))
            assert answer.status_code == 200, answer.text
            assert of(service, name) == pytest.approx(expected, abs=1e-6)
            assert sum(of(service, name) or ()) == pytest.approx(1.0, abs=1e-12)
        for wrong in ([0.05, 0.15, 0.8], [0.0, 0.0, 1.0]):
            answer = post(client, path, dose(id="x", legacy={"distribution": wrong}))
            assert answer.status_code == 422
            assert said(answer).startswith("legacy.distribution: the problem file declares uniform exploration at the rate 0.3")


def test_a_masked_level_explores_among_what_is_available(file_database: Database) -> None:
    problem = parse_problem(SMALL.replace("{column: p_setting}", "{base: meant, epsilon: 0.4}"))
    service = make_service(make_live(file_database, problem))
    with served(service) as client:
        available = [False, True, True]
        begun(client, recipe(available=available, legacy={"distribution": [0.0, 0.2, 0.8]}))
        assert of(service, "r") == pytest.approx((0.0, 0.0, 1.0))


# ---- what is refused ---------------------------------------------------------------------------------------------------------

WRONG = {
    "no incumbent": ({"distribution": [0.1, 0.8, 0.1]}, "legacy.incumbent: gains at level 'dose' are over the incumbent"),
    "an action that does not exist": ({**OWN, "incumbent": 7}, "legacy.incumbent: an action of level 'dose' is one of"),
    "an action that is text": ({**OWN, "incumbent": "up"}, "legacy.incumbent: an action"),
    "too few probabilities": ({**OWN, "incumbent": [0.5, 0.5]}, "legacy.incumbent: one probability for each"),
    "probabilities of another sum": ({**OWN, "incumbent": [0.5, 0.4, 0.0]}, "legacy.incumbent: probabilities sum to 1"),
    "a negative probability": ({**OWN, "incumbent": [-0.5, 1.5, 0.0]}, "legacy.incumbent: -0.5 is not a probability"),
    "an object": ({**OWN, "incumbent": {"action": 0}}, "legacy.incumbent"),
    "a list of text": ({**OWN, "incumbent": ["0", "1", "0"]}, "legacy.incumbent"),
    "beside an action": ({**MEANT, "incumbent": 0.0}, "legacy.incumbent: 'action' is what the incumbent means to take"),
    "too much exploration": ({"action": 0.0, "epsilon": 0.9}, "legacy.epsilon: the incumbent takes 0.0 with probability 1"),
    "an incumbent that the legacy hardly follows": (
        {"distribution": [0.4, 0.5, 0.1], "incumbent": 0.0},
        "'epsilon: 0.2' in the problem file allows at most 1.25 times",
    ),
    "an action that the legacy never takes": (
        {"distribution": [0.0, 0.9, 0.1], "incumbent": -1.0},
        "legacy.incumbent: the incumbent takes -1.0 with probability 1 and the legacy with 0",
    ),
}
WRONG_RECIPE = {
    "more often than promised": ({"distribution": [0.4, 0.4, 0.2], "incumbent": "slow"}, ALL, "allows at most 2 times"),
    "an action that is not available": (
        {"distribution": [0.0, 0.8, 0.2], "incumbent": "slow"},
        [False, True, True],
        'legacy.incumbent: "slow" is not available',
    ),
    "a probability of what is not available": (
        {"distribution": [0.0, 0.8, 0.2], "incumbent": [0.1, 0.9, 0.0]},
        [False, True, True],
        'legacy.incumbent: action "slow" has the probability 0.1 and is not available',
    ),
}


def test_every_wrong_incumbent_is_refused_and_its_field_named(service: Service, client: httpx.Client) -> None:
    path = begun(client, stated_recipe())
    assert post(client, "/v1/episodes", {"id": "f"}).status_code == 200
    last = service.live.journal.last
    asked = [(path, what, dose(legacy=legacy), words) for what, (legacy, words) in WRONG.items()]
    asked += [
        ("/v1/episodes/f/decisions", what, recipe(legacy=legacy, available=available), words)
        for what, (legacy, available, words) in WRONG_RECIPE.items()
    ]
    for where, what, body, words in asked:
        answer = post(client, where, body)
        assert answer.status_code == 422, (what, answer.text)
        assert words in said(answer), (what, said(answer))
        used = post(client, where.replace("decisions", "overruled"), {"ask": body, "used": 0.0})
        assert used.status_code == 422, (what, used.text)
    assert service.live.journal.last == last


def test_an_incumbent_that_the_problem_does_not_ask_for_is_refused(file_database: Database) -> None:
    service = make_service(make_live(file_database, parse_problem(RULE)))
    with served(service) as client:
        path = begun(client, recipe(legacy={"distribution": [0.8, 0.1, 0.1]}))
        wrong = post(client, path, dose(legacy=OWN))
        assert wrong.status_code == 422
        assert "the problem file states the incumbent of level 'dose' (always '0')" in said(wrong)
        assert post(client, path, dose(legacy=MEANT)).status_code == 200
        assert of(service, "d") is None
        unlike = post(client, path, dose(id="x", legacy={"distribution": [0.4, 0.5, 0.1]}))
        assert said(unlike).startswith("legacy.distribution: the incumbent takes 0.0 with probability 1")
        post(client, "/v1/episodes", {"id": "f"})
        masked = recipe(available=[False, True, True], legacy={"distribution": [0.0, 0.5, 0.5]})
        assert post(client, "/v1/episodes/f/decisions", masked).status_code == 200  # a rule keeps to what is available


def test_without_an_incumbent_the_reason_is_said(file_database: Database) -> None:
    service = make_service(make_live(file_database))
    with served(service) as client:
        path = begun(client, recipe())
        wrong = post(client, path, dose(legacy=OWN))
        assert wrong.status_code == 422
        assert said(wrong).startswith("legacy.incumbent: the problem file states no incumbent at level 'dose'")
        assert "over the policy that writes the log, exploration included" in said(wrong)
        words = {item["comparator"] for item in client.get("/v1/levels").json()}
        assert words == {"the policy that wrote the log, exploration included"}
        assert {item["incumbent"] for item in client.get("/v1/problem").json()["levels"]} == {None}


UNIFORM = """
episode: batch
reward: {column: yield, range: [0, 1], per: decision}
levels:
  - name: dose
    context: [temperature]
    action: {column: dose, values: [1, 2, 3]}
    propensity: {policy: uniform}
    incumbent: {base: meant}
"""


def test_a_legacy_that_is_known_still_needs_its_incumbent(file_database: Database) -> None:
    service = make_service(make_live(file_database, parse_problem(UNIFORM)))
    ask = {"level": "dose", "id": "d", "context": {"temperature": 1.0}}
    with served(service) as client:
        assert post(client, "/v1/episodes", {"id": "e"}).status_code == 200
        missing = post(client, "/v1/episodes/e/decisions", ask)
        assert said(missing).startswith("legacy.incumbent: gains at level 'dose' are over the incumbent")
        assert "distribution" not in said(missing)
        assert post(client, "/v1/episodes/e/decisions", {**ask, "legacy": {"incumbent": 2}}).status_code == 200
        assert of(service, "d") == (0.0, 1.0, 0.0)


# ---- what is kept ------------------------------------------------------------------------------------------------------------


def test_a_gate_that_is_started_again_knows_the_incumbents(file_database: Database) -> None:
    problem = parse_problem(STATED)
    with started(file_database, problem) as live:
        live.open_episode(key(), "e")
        live.decide(key(), "e", Ask(**stated_recipe()))
        live.overrule(key(), "e", Ask(**dose(legacy=OWN)), 0.0, True)
        before = told(live)
    with started(file_database, problem) as again:
        found = again.state.trees["e"].decisions
        assert {name: before["trees"]["e"].decisions[name] for name in found} == found
        assert found["d"].incumbent == (0.0, 1.0, 0.0)


@pytest.mark.usefixtures("quick_retries")
def test_a_client_without_its_gate_keeps_the_incumbent(service: Service, tmp_path: Path) -> None:
    port = free_port()
    problem = parse_problem(STATED)
    gate = Client(f"http://127.0.0.1:{port}", timeout=0.3, spool=tmp_path / "spool", problem=problem)
    episode = gate.open_episode("e")
    outer = episode.decide("recipe", {"task": "easy"}, RECIPE_OWN, available=ALL)
    inner = episode.decide("dose", {"temperature": 20.0}, {**OWN, "incumbent": np.array([0.0, 1.0, 0.0])}, outer)
    assert (outer.by, inner.by) == ("fallback", "fallback")
    with served(service, port=port):
        assert gate.flush(30)
        gate.close()
    assert gate.spool is not None
    kept = [item.body["incumbent"] for item in records(service.live, OVERRULED)]
    assert kept == [[0.8, 0.2, 0.0], [0.0, 1.0, 0.0]]
    assert service.live.state.trees["e"].arm == "agent"


# ---- what follows ------------------------------------------------------------------------------------------------------------


def base_form(problem: Problem) -> Problem:
    """Return a problem that declares its incumbents by base actions with uniform exploration."""
    levels = [replace(problem.level("meta"), incumbent=None)]
    levels.append(replace(problem.level("inner"), incumbent=None, propensity=Propensity(base="meant", epsilon=0.3)))
    return replace(problem, levels=tuple(levels))


def host_here(live: LiveGate, host: Host) -> EpisodeCounter:
    """Return who counts, with a host of one's own."""
    return EpisodeCounter(live, Here(Trainer(live.problem, host, live.seed)))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [pytest.param("rule", marks=pytest.mark.ci), "base"])
def test_the_incumbent_itself_is_never_certified(file_database: Database, form: str) -> None:
    plant = small_plant("sign:epsilon=0.3", **EXPLORES)
    problem = plant.problem if form == "rule" else base_form(plant.problem)
    with started(file_database, problem, mode="live", **{**QUICK, "caps": (2.0, float("inf"))}) as live:
        counting = host_here(live, ExternalHost(StatedIncumbent(live.problem), ("inner",)))
        run_plant(plant, live, 0, 80, counting)
        assert live.state.opened.paused is None
        assert live.state.opened.challenges
        assert not [item for item in records(live, EVENT) if item.body["event"]["kind"] in ("certified", "flip")]
        for challenge in live.state.opened.challenges:
            assert challenge.claim("gain").lower <= 0.0


def test_over_the_log_the_incumbent_would_gain_its_exploration(file_database: Database) -> None:
    """The plant of the test above shows the difference: declared to be the log, the comparator is worse by its exploration."""
    plant = small_plant("sign:epsilon=0.3", **EXPLORES)
    inner = replace(plant.problem.level("inner"), incumbent=Incumbent(policy="logged"))
    problem = replace(plant.problem, levels=(plant.problem.level("meta"), inner))
    bare = without_exploration(plant.legacy)
    with started(file_database, problem, mode="live", **QUICK) as live:
        counting = host_here(live, ExternalHost(replace(bare, problem=live.problem), ("inner",)))  # type: ignore[type-var]
        run_plant(plant, live, 0, 80, counting)
        assert [item.level for item in live.state.opened.deployed] == ["inner"]


class Recorded:
    """A plant that returns the episodes which a live gate has seen."""

    def __init__(self, problem: Problem, whole: Batch) -> None:
        self.problem, self._whole = problem, whole

    def episodes(self, first: int, count: int, *_: Any) -> Batch:
        """Return the episodes after the first ones."""
        return self._whole.take_episodes(np.arange(first, first + count))


@pytest.mark.parametrize("form", ["rule", pytest.param("base", marks=pytest.mark.ci)])
def test_live_and_batch_gate_have_the_same_numbers(file_database: Database, form: str) -> None:
    plant = small_plant("sign:epsilon=0.3")
    problem = plant.problem if form == "rule" else base_form(plant.problem)
    trees: list[LiveEpisode] = []
    settings = {**QUICK, "mode": "shadow", "first": 16}
    with started(file_database, problem, **settings) as live:
        host = ExternalHost(uniform_legacy(live.problem), ("inner",))
        counting = host_here(live, host)
        live.state.on_counted = lambda tree, unit: trees.append(tree)
        run_plant(plant, live, 0, 60, counting)
        batch = Handover(
            Recorded(live.problem, episodes_to_batch(live.problem, trees, live.columns)),  # type: ignore[arg-type]
            live.legacy,
            host,
            GateSettings(**settings),
            live.seed,
        )
        batch.advance(60)
        kept = [item.body["event"] for item in records(live, EVENT)]
    assert [item for item in map(event_to_plain, batch.events[1:]) if item["kind"] == "frozen"] == [
        item for item in kept if item["kind"] == "frozen"
    ]
    assert [item.units for item in batch.state.challenges] == [44, 44, 28, 28]
    assert batch.state.challenges == live.state.opened.challenges
    assert next(iter(batch.challengers.values())).terms.comparator.levels == Scope("inner")


@pytest.mark.parametrize("form", ["rule", "base"])
def test_the_export_certifies_to_the_numbers_of_the_gate(file_database: Database, tmp_path: Path, form: str) -> None:
    plant = small_plant("sign:epsilon=0.3")
    problem = plant.problem if form == "rule" else base_form(plant.problem)
    with started(file_database, problem, mode="live", **QUICK) as live:
        reading, counting, number = GateStatus(live), counting_here(live), 0
        live.state.on_event = reading._follow
        while not live.state.opened.deployed:
            run_plant(plant, live, number, 1, counting)
            number += 1
            assert number < 300
        run_plant(plant, live, number, 12, counting)  # by the agent: what is promised of the legacy does not hold of it
        found = export_gate(file_database, GATE, tmp_path)
        held = {item.challenge: item for item in live.state.opened.deployed}
    over = "the rule 'sign'" if form == "rule" else "as the control system sends it with each decision"
    assert [item["comparator"] for item in reading.certificates] == [f"the incumbent ({over})"]
    source = Source([tmp_path / "log.parquet"], load_problem(tmp_path / "problem.yaml"))
    (item,) = found["certificates"]
    certificate = certify(source, load_candidate(str(tmp_path / item["folder"]), source.problem), ledger=False)
    (level,) = certificate.levels
    assert level.verdict == "certified", certificate.verdict.sentence
    assert level.gain_lower == reward_measure(source.problem).gain(held[item["challenge"]].gain_lower)
    assert "than the incumbent" in str(certificate.verdict)
    # Other candidates: the agent's decisions are in the log, and nothing is promised of incumbent and agent.
    others = Source([tmp_path / "log.parquet"], load_problem(tmp_path / "problem-others.yaml"))
    other = certify(others, uniform_legacy(others.problem), scopes=[["inner"]], ledger=False)
    assert other.verdict.verdict != "refused", other.levels[0].reason
    assert "incumbent-impossible" in audit_log(source).codes("refused")
    assert "refused" not in [item.severity for item in audit_log(others).findings] and others.problem.time == "gate_episode"
