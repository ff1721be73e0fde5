"""What the live gate answers over HTTP, against golden files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
from service_cases import ALL, LEGACY, make_live, make_service, post, served

from aegis.service.store.database import Database

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))

from golden_files import check


def body(answer: httpx.Response) -> dict[str, Any]:
    """Return what a golden file keeps of an answer."""
    return {"status": answer.status_code, "body": answer.json()}


def test_answers(database: Database) -> None:
    answers = []
    with served(make_service(make_live(database), counts=True)) as client:
        answers.append(body(post(client, "/v1/episodes", {"id": "e1"}, "open")))
        recipe = {"level": "recipe", "id": "r", "context": {"task": "easy"}, "available": ALL, "legacy": LEGACY}
        answers.append(body(post(client, "/v1/episodes/e1/decisions", recipe, "recipe")))
        dose = {"level": "dose", "id": "d", "parent": "r", "context": {"temperature": 20.5}, "legacy": LEGACY}
        answers.append(body(post(client, "/v1/episodes/e1/decisions", dose, "dose")))
        wrong = {**dose, "id": "x", "context": {"heat": 1}}
        answers.append(body(post(client, "/v1/episodes/e1/decisions", wrong, "wrong")))
        reports = {"items": [{"episode": "e1", "decision": "d", "reward": 4.0, "guards": {"scrap": 0.5}}]}
        answers.append(body(post(client, "/v1/results", reports, "results")))
        answers.append(body(post(client, "/v1/episodes/e1/close", {}, "close")))
        answers += [body(client.get(path)) for path in ("/v1/gate", "/v1/levels", "/v1/problem", "/nowhere")]
    check("service", answers)
