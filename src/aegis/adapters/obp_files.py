"""Feedback dictionaries in files of plain arrays: no pickle, which can run any code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aegis.errors import LogError, SettingError
from aegis.files import written_aside


def save_feedback(feedback: Mapping[str, Any], path: str | Path) -> None:
    """Write a feedback dictionary as an .npz file of plain arrays; what is None is left out. Raises OutputError."""
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in feedback.items() if value is not None}
    for name, value in arrays.items():
        if value.dtype.hasobject:
            raise LogError(f"key '{name}': holds Python objects; a file holds arrays of numbers and texts")
    if Path(path).suffix != ".npz":
        raise SettingError(f"a feedback dictionary is written as .npz, found '{path}'")
    with written_aside(path) as aside, aside.open("wb") as file:
        np.savez_compressed(file, **arrays)


def load_feedback(path: str | Path) -> dict[str, Any]:
    """Return what `save_feedback` wrote; files that need pickle, which can run any code, are refused. Raises LogError."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except Exception as error:  # damaged archives raise what they like
        raise LogError(
            f"{path}: cannot be read as an .npz file of plain arrays: {error}; write it with "
            "aegis.adapters.obp_files.save_feedback, which needs no pickle"
        ) from error
    return {name: value.item() if value.ndim == 0 else value for name, value in arrays.items()}
