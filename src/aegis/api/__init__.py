"""The Python face of AEGIS: objects as users name them."""

from aegis.api.references import (
    COLUMNS_PREFIX,
    FULL_COLUMNS_PREFIX,
    candidate_files,
    load_candidate,
    load_legacy,
    load_object,
    load_plant,
    make_importable,
)

__all__ = [
    "COLUMNS_PREFIX",
    "FULL_COLUMNS_PREFIX",
    "candidate_files",
    "load_candidate",
    "load_legacy",
    "load_object",
    "load_plant",
    "make_importable",
]
