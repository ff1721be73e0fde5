"""`aegis doctor`: is this environment fit to work in?"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from aegis.cli import first_step_lines, options
from aegis.cli.output import console, print_json, print_line, table
from aegis.version import __version__

CORE_PACKAGES = ("numpy", "scipy", "pyarrow", "pydantic", "PyYAML", "click", "jinja2", "rich", "threadpoolctl")
OPTIONAL_EXTRAS = {  # extra -> what it is for, and a package that comes with it
    "report": ("figures of benches", "matplotlib"),
    "service": ("the live gate", "fastapi"),
    "postgres": ("its store in PostgreSQL", "psycopg"),
    "distributed": ("clusters", "dask"),
    "sklearn": ("models of scikit-learn as policies", "scikit-learn"),
    "mlflow": ("certificates in MLflow", "mlflow-skinny"),
}
ABSENT = "not installed"


@click.command("doctor")
@options.as_json
def command(as_json: bool) -> None:
    """Check versions, extras, BLAS threads, the disk, and one small computation from end to end; say what to do next.

    Exit code 0 if everything works, 2 otherwise.
    """
    python = _check("python", platform.python_version(), sys.version_info >= (3, 11), "AEGIS needs Python 3.11 or newer")
    packages = [_package(name) for name in CORE_PACKAGES]
    extras = [_extra(name) for name in OPTIONAL_EXTRAS]
    checks = [python, *packages, *extras, _threads(), _disk(), _round_trip()]
    fine = all(check["ok"] for check in checks)
    if as_json:
        print_json({"ok": fine, "version": __version__, "checks": checks})
    else:
        verdicts = ["ok" if check["ok"] else f"PROBLEM: {check['fix']}" for check in checks]
        cells = [[check["what"], check["found"], verdict] for check, verdict in zip(checks, verdicts, strict=True)]
        rows = [[escape(text) for text in row] for row in cells]  # [service] is the name of an extra
        console().print(table(f"aegis {__version__}", ["check", "found", "verdict"], rows))
        for line in _next_steps(fine):
            print_line(line)
    sys.exit(0 if fine else 2)


def _check(what: str, state: str, ok: bool, fix: str = "") -> dict[str, Any]:
    return {"what": what, "found": state, "ok": ok, "fix": "" if ok else fix}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str) -> dict[str, Any]:
    version = _version(name)
    return _check(name, version or "missing", version is not None, f"install {name}")


def _extra(name: str) -> dict[str, Any]:
    """Return whether an extra is installed; nothing is wrong if it is not."""
    package = OPTIONAL_EXTRAS[name][1]
    version = _version(package)
    return _check(f"extra {name}", ABSENT if version is None else f"{package} {version}", True)


def _next_steps(fine: bool) -> list[str]:
    if not fine:
        return ["Mend what is marked PROBLEM first, then run `aegis doctor` again."]
    missing = [name for name in OPTIONAL_EXTRAS if _extra(name)["found"] == ABSENT]
    extras = [f"For {OPTIONAL_EXTRAS[name][0]}: pip install 'aegis-handover[{name}]'" for name in missing]
    return [*extras, "Everything works. Next:", *first_step_lines()]


def _threads() -> dict[str, Any]:
    import scipy.linalg  # noqa: F401  loads the libraries whose threads are counted
    from threadpoolctl import threadpool_info

    counts = sorted({int(pool["num_threads"]) for pool in threadpool_info()})
    fix = "set OPENBLAS_NUM_THREADS=1: small matrices are far slower on several threads"
    return _check("BLAS threads", ", ".join(map(str, counts)) or "none", all(count == 1 for count in counts), fix)


def _disk() -> dict[str, Any]:
    folder = tempfile.gettempdir()
    try:
        space = os.statvfs(folder)
    except (OSError, AttributeError) as error:
        return _check("temporary folder", f"{folder} ({error})", True)
    free = space.f_bavail * space.f_frsize / 2**30
    return _check("temporary folder", f"{folder}, {free:.1f} GiB free", free > 0.5, "free some disk space or set TMPDIR")


def _round_trip() -> dict[str, Any]:
    """Simulate a few episodes, write the log, read it back, and compare."""
    import numpy as np

    from aegis.errors import AegisError
    from aegis.logs import Source, write_log
    from aegis.worlds import make_world

    world = make_world("additive")
    batch = world.episodes(0, 5, world.legacy("uniform"), 1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            write_log(batch, world.problem, path)
            again = Source([path], world.problem).read()
    except (AegisError, OSError) as error:
        return _check("simulate, write, read", str(error), False, "see the message")
    same = again.reward is not None and batch.reward is not None and np.array_equal(batch.reward, again.reward)
    return _check("simulate, write, read", f"{len(again)} episodes", bool(same), "the log read back differs: please report it")
