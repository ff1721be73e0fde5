"""An endpoint that validates what a decision sends, writes one row and commits: what a live gate cannot do without.

`python benchmarks/service_empty.py STORE PORT`
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI

from aegis.service.routes.base import EpisodeName, Key
from aegis.service.schemas import Accepted, Answer, Ask, Close, Closed, Opened, OpenEpisode, Reports
from aegis.service.store.database import Database

META = sa.MetaData()
ROWS = sa.Table(
    "rows",
    META,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(128), unique=True),
    sa.Column("body", sa.Text),
)


def main() -> None:
    """Serve."""
    database = Database.at(sys.argv[1])
    META.create_all(database.engine)
    app, lock = FastAPI(), threading.Lock()
    answer = {"level": "inner", "action": 0.0, "index": 1, "propensity": 0.5, "by": "legacy", "version": "legacy", "at": ""}

    def write(key: str, body: Any) -> None:
        with lock, database.transaction() as connection:
            connection.execute(ROWS.insert().values(key=key, body=json.dumps(body.model_dump())))

    @app.get("/v1/health")
    def health() -> dict[str, bool]:
        return {"writer": True}

    @app.post("/v1/episodes", response_model=Opened)
    def opened(body: OpenEpisode, key: Key) -> Any:
        write(key, body)
        return {"episode": key, "opened": ""}

    @app.post("/v1/episodes/{episode}/decisions", response_model=Answer)
    def decided(episode: EpisodeName, body: Ask, key: Key) -> Any:
        write(key, body)
        return {"episode": episode, "decision": key, **answer}

    @app.post("/v1/results", response_model=Accepted)
    def reported(body: Reports, key: Key) -> Any:
        write(key, body)
        return {"accepted": len(body.items), "late": False, "at": ""}

    @app.post("/v1/episodes/{episode}/close", response_model=Closed)
    def closed(episode: EpisodeName, body: Close, key: Key) -> Any:
        write(key, body)
        return {"episode": episode, "closed": "", "missing": 0}

    uvicorn.Server(uvicorn.Config(app, "127.0.0.1", int(sys.argv[2]), log_config=None, access_log=False)).run()


if __name__ == "__main__":
    main()
