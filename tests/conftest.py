"""Shared fixtures: one BLAS thread, small problems of any depth, and a ledger of looks that is never the user's own."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"


_lasting: set[str] = set()  # modules that no test wrote


def pytest_collection_finish() -> None:
    """Leave what collecting the tests made out of garbage collection: it stays to the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget modules that an earlier test wrote and imported: pages call theirs `mine`, each its own."""
    folder = tempfile.gettempdir() + os.sep
    kept = tuple(os.path.join(place, "") for place in (item.config.rootpath, sys.prefix, sys.base_prefix))  # may be in there, too
    for name in set(sys.modules) - _lasting:
        place = getattr(sys.modules.get(name), "__dict__", {}).get("__file__") or ""
        if place.startswith(folder) and not place.startswith(kept):
            sys.modules.pop(name, None)
        else:
            _lasting.add(name)


@pytest.fixture(scope="session", autouse=True)
def _own_ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep looks in a temporary folder, also those of fixtures that serve several tests."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("ledgers")
        patch.setenv("AEGIS_LEDGER", str(folder / "shared"))
        yield folder


@pytest.fixture(autouse=True)
def _own_ledger(_own_ledgers: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Give every test a ledger of its own, so that no test sees the looks of another."""
    monkeypatch.setenv("AEGIS_LEDGER", str(_own_ledgers / str(abs(hash(request.node.nodeid)))))
