"""Names of a package that are imported when first used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aegis.lazy import import_on_use


def test_a_module_is_imported_when_its_name_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lazy_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "things.py").write_text("first, second = 1, 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    get = import_on_use("lazy_package", {"things": "first second"})
    assert "lazy_package.things" not in sys.modules
    assert (get("first"), get("second")) == (1, 2)
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'third'"):
        get("third")
    monkeypatch.delitem(sys.modules, "lazy_package.things")
