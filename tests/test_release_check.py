"""The check of a wheel finds what is missing; the release checklist names commands that exist."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "release.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def check() -> ModuleType:
    """Return the script as a module."""
    spec = importlib.util.spec_from_file_location("release_check", ROOT / "tools" / "release_check.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def packed(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def test_a_file_that_a_wheel_lacks_is_named(check: ModuleType, tmp_path: Path) -> None:
    sources = ROOT / "src"
    files = [path.relative_to(sources).as_posix() for path in sources.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    whole = packed(tmp_path / "whole.whl", files)
    assert check.left_out(whole, sources) == []
    for lost in ("aegis/report/templates/certificate.html", "aegis/paper/benches/1a.yaml", "aegis/service/pages/gate.js"):
        lacking = packed(tmp_path / "lacking.whl", [name for name in files if name != lost])
        assert check.left_out(lacking, sources) == [lost]


def test_a_wheel_that_lacks_something_fails_before_anything_is_installed(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = packed(tmp_path / "empty.whl", ["aegis/__init__.py"])
    assert check.main(["--wheel", str(wheel), "--python", sys.executable]) == 1
    assert "empty.whl lacks aegis/__main__.py" in capsys.readouterr().err


def test_a_page_of_other_code_or_other_benches_is_refused(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aegis.paper import bench_page
    from aegis.paper.code_digest import code_version

    archive = tmp_path / "paper.json"
    archive.write_text(json.dumps({"code": code_version(), "preset": "full", "benches": {}}), encoding="utf-8")
    assert "bench 1a: the archive lacks it" in check.outdated_page(archive)
    monkeypatch.setattr(bench_page, "list_benches", list)
    assert check.outdated_page(archive) == ""
    archive.write_text(json.dumps({"code": "0123456789abcdef", "preset": "full", "benches": {}}), encoding="utf-8")
    assert "aegis bench run all --preset full" in check.outdated_page(archive)


def test_the_newest_wheel_is_taken_and_none_is_an_error(check: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(check.CheckError, match="run `make wheel`"):
        check.newest(tmp_path)
    packed(tmp_path / "a.whl", [])
    assert check.newest(tmp_path).name == "a.whl"


def test_this_python_is_found_by_its_version(check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = tmp_path / "versions" / f"{version}.0" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert check.interpreters([version]) == [folder / "python"]
    assert check.interpreters(["2.0"]) == []


def test_the_sources_are_not_on_the_path_of_what_is_checked(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    said = check._run([sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH'))"], tmp_path)
    assert said.strip() == "None"
    with pytest.raises(check.CheckError, match=r"ended with 3:\nwhy"):
        check._run([sys.executable, "-c", "print('why'); raise SystemExit(3)"], tmp_path)


def test_the_checklist_names_targets_that_exist_and_every_python_that_is_promised() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make ([a-z-]+)`", PAGE))
    assert {"check", "soak", "bench", "wheel", "release-check", "screenshots"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.M), target
    promised = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert re.findall(r"^\| (3\.\d+)\.\d+ \|.*passed", PAGE, flags=re.M) == promised


def test_the_checklist_says_what_make_bench_does() -> None:
    found = re.search(r"for part in ([a-z_ ]+);", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert found is not None
    step = re.search(r"^5\. .*?(?=^6\. )", PAGE, flags=re.M | re.S)
    assert step is not None
    named = [name for name in re.findall(r"`([a-z_]+)`", step[0]) if (ROOT / "benchmarks" / f"{name}.py").exists()]
    assert named == found[1].split()


def test_a_source_archive_would_be_whole() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("the sources are not a git checkout: what is tracked cannot be listed")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    always = ("/.gitignore", "/pyproject.toml")  # hatchling takes these in any case
    lost = [name for name in listed if not f"/{name}".startswith((*included, *always))]
    assert lost == []


def test_the_version_is_the_same_everywhere() -> None:
    from aegis.version import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"Version {__version__}, wheel" in PAGE


def test_files_that_the_checklist_names_exist() -> None:
    for name in re.findall(r"`([\w/.-]+\.(?:py|md|toml|cff|txt))`", PAGE):
        assert (ROOT / name).exists(), name
