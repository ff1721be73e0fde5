"""Parts of AEGIS that need more than its core: what to install if it is not there."""

from __future__ import annotations

import importlib.util

from aegis.errors import InputError

SERVICE = ("fastapi", "uvicorn", "sqlalchemy", "alembic", "prometheus_client")


def service_extra() -> None:
    """Raise InputError if the live gate cannot run because something is not installed."""
    missing = [name for name in SERVICE if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the live gate needs {', '.join(missing)}: pip install 'aegis-handover[service]'")
