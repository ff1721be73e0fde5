"""The whole API under generated requests: as it is described, without a failure inside, and nothing odd in the journal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from service_cases import dose, make_live, make_service, post, recipe, records, served

from aegis.service.app import Service
from aegis.service.live_episodes import LiveEpisode
from aegis.service.store.database import Database

load_all_checks()
WANTED = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"),
    *("response_headers_conformance", "negative_data_rejection"),
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Any]]:
    """Return a service with an episode that generated requests may hit, and its description."""
    database = Database.at(tmp_path_factory.mktemp("fuzzed") / "gate.sqlite")
    database.upgrade()
    service = make_service(make_live(database), rate=1e9)
    with served(service) as client:
        post(client, "/v1/episodes", {"id": "0"})
        post(client, "/v1/episodes/0/decisions", recipe())
        post(client, "/v1/episodes/0/decisions", dose())
        yield service, schemathesis.openapi.from_url(f"{client.base_url}/v1/openapi.json")
    database.close()


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_request_is_answered_as_described(fuzzed: tuple[Service, Any], mode: GenerationMode) -> None:
    checks = [check for check in CHECKS.get_all() if check.__name__ in WANTED]
    assert len(checks) == len(WANTED)
    tried = []
    for found in fuzzed[1].get_all_operations():
        operation = found.ok()
        if operation.path == "/v1/stream":  # which never ends
            continue

        @settings(
            max_examples=6, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            case.call_and_validate(checks=checks)

        try:
            ask()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE  # there is nothing that such a request could do wrong
        tried.append(operation.label)
    assert len(tried) == 16


def test_nothing_odd_reached_the_gate(fuzzed: tuple[Service, Any]) -> None:
    live = fuzzed[0].live
    assert len(records(live)) == live.journal.last  # the chain is whole
    trees: list[LiveEpisode] = list(live.state.trees.values())
    for tree in trees:
        for item in tree.decisions.values():
            level = live.problem.level(item.level)
            assert 0 <= item.action < level.actions.count
            assert sum(item.legacy) == pytest.approx(1.0)
            assert item.chances[item.action] > 0
            assert set(item.context) == {variable.name for variable in level.context}
        for found in tree.results.values():
            assert found.reward is None or 0.0 <= found.reward <= 10.0
    assert {item.kind for item in records(live)} <= {
        *("opened", "writer", "episode", "decision", "overruled", "results", "late", "closed", "event", "keyed")
    }
