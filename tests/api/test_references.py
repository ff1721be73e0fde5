"""References: modules in other folders, worlds with settings, plants and legacies of one's own, and what cannot be loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aegis.api import (
    candidate_files,
    load_candidate,
    load_legacy,
    load_object,
    load_plant,
    load_plant_or_world,
    load_world,
    make_importable,
)
from aegis.errors import PolicyError, SettingError
from aegis.policies import FullColumns, TargetColumns
from aegis.worlds import World

MODULE = """
from aegis.worlds import make_world
plant = make_world("additive", inner_steps=2)
legacy = plant.legacy("uniform")
def broken():
    raise ValueError("no plant today")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, not the current one, with a module of plants."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "referenced_greenhouse.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "referenced_greenhouse", raising=False)
    return tmp_path / "elsewhere"


def test_a_module_is_named_with_its_folder_and_found_there(folder: Path) -> None:
    assert make_importable("elsewhere/referenced_greenhouse.py:plant") == "referenced_greenhouse:plant"
    assert sys.path[0] == str(folder)
    assert isinstance(load_plant("elsewhere/referenced_greenhouse:plant"), World)
    assert candidate_files(["elsewhere/referenced_greenhouse:legacy", "columns:a"]) == [folder / "referenced_greenhouse.py"]


def test_plants_and_worlds(folder: Path) -> None:
    world = load_plant_or_world(None, "additive", None, {"inner_steps": 3}, None)
    assert isinstance(world, World) and world.steps[-1] == 3
    own = "elsewhere/referenced_greenhouse"
    plant = load_plant_or_world(f"{own}:plant", "additive", None, {}, f"{own}:legacy")
    assert load_legacy(f"{own}:legacy", plant) is not None and load_legacy("uniform", plant) is not None
    with pytest.raises(SettingError, match="a plant of your own has none"):
        load_plant_or_world(f"{own}:plant", "additive", None, {"f_a": 1}, f"{own}:legacy")
    with pytest.raises(SettingError, match="needs a legacy of your own"):
        load_plant_or_world(f"{own}:plant", "additive", None, {}, None)
    with pytest.raises(SettingError, match="write --shift N_Q instead"):
        load_world("unified", {"shift": "N_Q"})


def test_what_cannot_be_loaded_is_said(folder: Path) -> None:
    with pytest.raises(SettingError, match="raised ValueError: no plant today; a plant has a 'problem'"):
        load_plant("elsewhere/referenced_greenhouse:broken")
    with pytest.raises(SettingError, match="is a str, not a plant"):
        load_plant("elsewhere/referenced_greenhouse:__name__")
    with pytest.raises(PolicyError, match="has no 'missing'"):
        load_object("elsewhere/referenced_greenhouse:missing", "a callable", "x:y", PolicyError)
    with pytest.raises(PolicyError, match="is named 'module:object', for example 'x:y'"):
        load_object("words", "a callable", "x:y", PolicyError)


def test_columns_of_the_log_as_candidates() -> None:
    problem = load_world("additive", {"inner_steps": 2}).problem
    outer, inner = problem.names
    assert load_candidate("columns:a,b", problem).columns == ("a", "b")
    candidate = load_candidate("columns: a", problem, [inner])
    assert isinstance(candidate.policy, TargetColumns) and dict(candidate.policy.columns) == {inner: "a"}
    count = problem.level(outer).actions.count
    full = load_candidate("full-columns:" + ",".join(f"q{i}" for i in range(count)), problem, [outer])
    assert isinstance(full.policy, FullColumns) and len(full.columns) == count
    with pytest.raises(PolicyError, match=f"names 1 columns, expected {count}"):
        load_candidate("full-columns:q", problem, [outer])
    with pytest.raises(PolicyError, match="names 3 columns for 2 levels"):
        load_candidate("columns:a,b,c", problem)
    with pytest.raises(PolicyError, match="there is no folder 'nowhere'"):
        load_candidate("nowhere", problem)
