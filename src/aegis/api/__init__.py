"""The Python face of AEGIS: objects as users name them."""

from aegis.api.references import (
    COLUMNS_PREFIX,
    FULL_COLUMNS_PREFIX,
    REWARDS_SUBFOLDER,
    candidate_files,
    load_candidate,
    load_legacy,
    load_object,
    load_plant,
    load_plant_or_world,
    load_world,
    make_importable,
)

__all__ = [
    "COLUMNS_PREFIX",
    "FULL_COLUMNS_PREFIX",
    "REWARDS_SUBFOLDER",
    "candidate_files",
    "load_candidate",
    "load_legacy",
    "load_object",
    "load_plant",
    "load_plant_or_world",
    "load_world",
    "make_importable",
]
