"""Parts of AEGIS that need more than its core: what to install if it is not there."""

from __future__ import annotations

import importlib.util

from aegis.errors import InputError

MLFLOW = ("mlflow",)
SERVICE = ("fastapi", "uvicorn", "sqlalchemy", "alembic", "prometheus_client")


def service_extra() -> None:
    """Raise InputError if the live gate cannot run because something is not installed."""
    missing = [name for name in SERVICE if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the live gate needs {', '.join(missing)}: pip install 'aegis-handover[service]'")


def mlflow_extra() -> None:
    """Raise InputError if nothing can be logged into MLflow because it is not installed."""
    missing = [name for name in MLFLOW if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"--mlflow needs {', '.join(missing)}: pip install 'aegis-handover[mlflow]'")
