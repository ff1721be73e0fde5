"""Is a built wheel whole? Installs it into an empty environment of every Python found and runs it there, far from the sources.

It also checks that the page about the paper shows numbers of this very code, and of the benches as they are.

    python tools/release_check.py                      # the newest wheel in dist/, every Python 3.11, 3.12 and 3.13 that is found
    python tools/release_check.py --python /usr/bin/python3.12 --wheel dist/aegis_handover-0.1.0-py3-none-any.whl

`make release-check` builds the wheel first. Needs the network; takes a few minutes for each Python.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
SOURCES = ROOT / "src"
TOLD = ("numpy", "scipy", "pyarrow", "pydantic", "click", "rich")


class CheckError(Exception):
    """What is wrong with the wheel, or with what is needed to check it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the wheel with every Python; return 0 if it passed with all of them."""
    asked = argparse.ArgumentParser(description="Install the wheel into empty environments and run the demo there.")
    asked.add_argument("--wheel", type=Path, help="the wheel; the newest one in dist/ unless named")
    asked.add_argument("--python", action="append", type=Path, help="an interpreter; repeatable. All that are found unless named")
    asked.add_argument("--episodes", type=int, default=100, help="of the demo's handover")
    given = asked.parse_args(arguments)
    try:
        wheel = given.wheel or newest(ROOT / "dist")
        missing = left_out(wheel, SOURCES)
        if missing:
            raise CheckError(f"{wheel.name} lacks {', '.join(missing)}: see [tool.hatch.build.targets.wheel] in pyproject.toml")
        outdated = outdated_page(ROOT / "docs" / "paper.json")
        if outdated:
            raise CheckError(outdated)
        found = given.python or interpreters(PYTHONS)
        if not found:
            raise CheckError(f"no Python {', '.join(PYTHONS)} was found: install one, or name it with --python")
        for python in found:
            print(f"{python}: {checked(python, wheel, given.episodes)}", flush=True)
    except CheckError as error:
        print(f"release check: {error}", file=sys.stderr)
        return 1
    return 0


def newest(folder: Path) -> Path:
    """Return the wheel in a folder that was written last."""
    wheels = sorted(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise CheckError(f"there is no wheel in {folder}: run `make wheel`")
    return wheels[-1]


def left_out(wheel: Path, sources: Path) -> list[str]:
    """Return the files of the package that a wheel does not hold: templates, pages and YAML files as well as code."""
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    files = [path for path in sorted(sources.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return [name for name in (path.relative_to(sources).as_posix() for path in files) if name not in held]


def outdated_page(archive: Path) -> str:
    """Return what is wrong with the archive of the paper's page; nothing if this release's code and benches gave its numbers."""
    from aegis.paper.bench_page import outdated_benches
    from aegis.paper.code_digest import code_version

    page, release = json.loads(archive.read_text(encoding="utf-8"))["code"], code_version()
    other = [f"numbers of code {page}, the release is code {release}"] if page != release else []
    other += outdated_benches(archive)
    if not other:
        return ""
    return (
        f"docs/{archive.name} and docs/paper.md are out of date ({'; '.join(other)}): run "
        "`aegis bench run all --preset full` and `aegis bench report --preset full`, and copy both pages and the figures to docs/"
    )


def interpreters(versions: Sequence[str]) -> list[Path]:
    """Return one interpreter for each version, of those on the path and those that pyenv has installed."""
    found = []
    for version in versions:
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        candidates = [*sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True), shutil.which(f"python{version}")]
        working = [Path(path) for path in candidates if path is not None and _version(Path(path)) == version]
        found.extend(working[:1])
    return found


def checked(python: Path, wheel: Path, episodes: int) -> str:
    """Install a wheel into an empty environment and run it in an empty folder; return the versions it ran with."""
    with tempfile.TemporaryDirectory(prefix="aegis-wheel-") as name:
        place = Path(name)
        empty = place / "empty"
        empty.mkdir()
        _run([python, "-m", "venv", place / "venv"], place)
        inside = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
        pip = [inside / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _run([*pip, wheel.resolve()], empty)
        where = Path(_run([inside / "python", "-c", "import aegis; print(aegis.__file__)"], empty).strip())
        if place / "venv" not in where.parents:
            raise CheckError(f"{python}: aegis came from {where}, not from the wheel")
        doctor = json.loads(_run([inside / "aegis", "doctor", "--json"], empty))
        demo = json.loads(_run([inside / "aegis", "demo", "--episodes", episodes, "--json"], empty))
        _passed(demo, empty)
        _run([inside / "aegis", "bench", "list"], empty)
        _run([inside / "aegis", "completion", "bash"], empty)
        _run([*pip, f"{wheel.resolve()}[service]"], empty)
        _run([inside / "python", "-c", _SERVED], empty)
        versions = {check["what"]: check["found"] for check in doctor["checks"]}
        return ", ".join([f"Python {versions['python']}", *[f"{package} {versions[package]}" for package in TOLD]]) + ": passed"


# The live gate serves its pages and creates its store: both come from files inside the wheel.
_SERVED = """
import socket, subprocess, sys, time, urllib.request
from pathlib import Path
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
aegis = Path(sys.executable).with_name("aegis")
gate = subprocess.Popen([aegis, "serve", "--simulate", "additive", "--listen", f"127.0.0.1:{port}", "--store", "gate.sqlite"])
try:
    for _ in range(600):
        try:
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read().decode()
            break
        except OSError:
            if gate.poll() is not None:
                sys.exit("aegis serve ended")
            time.sleep(0.2)
    else:
        sys.exit("aegis serve did not answer")
finally:
    gate.terminate()
    gate.wait(60)
if "<html" not in page:
    sys.exit(f"aegis serve has no page: {page[:200]}")
"""


def _passed(demo: dict[str, object], folder: Path) -> None:
    """Raise CheckError unless the demo certified and wrote the pages it names."""
    if demo["verdict"] != "certified":
        raise CheckError(f"the demo ended with the verdict {demo['verdict']!r}")
    pages = [folder / str(demo["report"]), *folder.glob("demo-run/handover-*/report.html")]
    if len(pages) < 2 or not all(page.is_file() and "<html" in page.read_text(encoding="utf-8") for page in pages):
        raise CheckError("the demo did not write both of its reports")


def _version(python: Path) -> str | None:
    try:
        done = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    said = re.match(r"Python (\d+\.\d+)\.", done.stdout)
    return said[1] if said else None


def _run(command: Sequence[object], folder: Path) -> str:
    """Run a command without the sources on the path; return what it printed."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    surroundings = {name: value for name, value in os.environ.items() if name not in hidden}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CheckError(f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
