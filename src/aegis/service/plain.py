"""What a control system holds, as JSON has it: numpy's numbers become numbers, and what JSON cannot say is told in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from aegis.errors import InputError


def plain(value: Any, strict: bool = False) -> Any:
    """Return a value that can be sent. What is no finite number and no text is sent as text, which the gate refuses with a reason
    where it expects a number; InputError at once if strict."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal) and value.is_finite():
        return float(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item, strict) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [plain(item, strict) for item in value]
    if hasattr(value, "tolist"):  # numpy's, and those of its relatives
        return plain(value.tolist(), strict)
    if strict:
        raise InputError(f"this cannot be sent to the gate, plain finite numbers and text can: {value!r}")
    return repr(value)[:200]
