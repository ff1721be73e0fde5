"""Environments of the peers: one for each, with versions of its own, so that theirs and ours do not meet.

What a peer needs is in `peers/NAME.txt`, its script in `peers/NAME.py`. Scripts read one JSON document from standard input and
print one as their last line; they never import aegis. Times are taken inside them, after imports and a first call.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS = HERE / "peers"
ENVIRONMENTS = HERE.parents[0] / "build" / "peers"
PATIENCE = 1800  # seconds for an installation
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class MissingPeerError(Exception):
    """A peer cannot be installed or used here; says why."""


def python_of(name: str) -> Path:
    """Return the interpreter of a peer's environment, made if it is not there yet or if what it needs has changed.

    The first line of `peers/NAME.txt` may name the Python it needs, as `# python 3.10`; MissingPeerError if there is none, or if
    something does not install.
    """
    wanted = (PEERS / f"{name}.txt").read_text(encoding="utf-8")
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "installed"
    key = hashlib.sha256(wanted.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == key:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    first = wanted.splitlines()[0]
    if first.startswith("# python "):
        _checked([_interpreter(first.split()[2]), "-m", "venv", str(folder)], name)
    else:
        venv.create(folder, with_pip=True)
    _checked(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(PEERS / f"{name}.txt")], name
    )
    stamp.write_text(key)
    return python


def ask(name: str, question: dict[str, Any], patience: float = 3600) -> dict[str, Any]:
    """Run the script of a peer in its environment with a question and return its answer; MissingPeerError if it fails."""
    done = subprocess.run(
        [str(python_of(name)), str(PEERS / f"{name}.py")],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=patience,
        env={**os.environ, **ONE_THREAD},
        check=False,
    )
    if done.returncode:
        raise MissingPeerError(f"{name}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'no answer'}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _interpreter(version: str) -> str:
    """Return a Python of a version: on the path, or among those of pyenv."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
        return found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    own = sorted(root.glob(f"versions/{version}*/bin/python"))
    if own:
        return str(own[-1])
    if sys.version_info[:2] == tuple(int(part) for part in version.split(".")):
        return sys.executable
    raise MissingPeerError(f"it needs Python {version}, which is not on this machine")


def _checked(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise MissingPeerError(f"{name} does not install: {' '.join(lines[-3:])[:400]}")
