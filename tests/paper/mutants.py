"""Plants mutations in a copy of the package, one at a time, and runs the tests of the equations against each.

Run as a script: `python mutants.py ROOT WORK`; prints one JSON object, mutation -> exit code of pytest. Heavy libraries
are imported once; each mutant runs in a fork of this process.
"""

import contextlib
import io
import json
import os
import shutil
import sys
from pathlib import Path

import numpy  # noqa: F401  imported before the forks, so that each of them need not
import pyarrow.parquet  # noqa: F401
import pydantic  # noqa: F401
import pytest
import scipy.linalg
import scipy.special
import scipy.stats  # noqa: F401

PYTEST = ["-o", "addopts=", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest"]

# what: (file, text, mutated text, which tests of test_equations.py must catch it)
MUTATIONS = {
    "nothing at all": ("version.py", "", "", ""),
    "Phi_I keeps the contexts above the scope": (
        "problem/problem.py",
        "(level.name) < top",
        "(level.name) > top",
        "definition_2",
    ),
    "levels are counted from the outside": (
        "problem/problem.py",
        "return len(self.levels) - self.names.index(self.level(name).name)",
        "return 1 + self.names.index(self.level(name).name)",
        "definition_2",
    ),
    "the worst action instead of the best": (
        "planning/recursion.py",
        "below).max(axis=-1)",
        "below).min(axis=-1)",
        "recursion[2",
    ),
    "controlled and legacy levels swapped": (
        "planning/recursion.py",
        "if child.name in self",
        "if child.name not in self",
        "pi_ell",
    ),
    "outcome noise forgotten": ("planning/recursion.py", "states.count, noisy)", "states.count)", "recursion[1-polynomial"),
    "policy takes the smallest value": (
        "planning/rules.py",
        "np.argmax(values, axis=-1)",
        "np.argmin(values, axis=-1)",
        "pi_ell",
    ),
    "mean context with the wrong sign": (
        "planning/integration.py",
        "mean[:, :, None, :] +",
        "-mean[:, :, None, :] +",
        "recursion[2",
    ),
    "evidence subtracted": ("mechanisms/nig.py", "self.shift + temper *", "self.shift - temper *", "nig_update"),
    "a whole count per row": (
        "mechanisms/nig.py",
        "0.5 * temper * features.shape[0]",
        "temper * features.shape[0]",
        "nig_update",
    ),
    "rate with the wrong sign": ("mechanisms/nig.py", "0.5 * (self.square - np", "0.5 * (self.square + np", "right_rows"),
    "KL with shapes swapped": (
        "mechanisms/nig.py",
        "(p.shape - q.shape) * digamma",
        "(q.shape - p.shape) * digamma",
        "causal_kl",
    ),
    "KL over all mechanisms": (
        "mechanisms/belief.py",
        "wanted = self.problem.mechanisms(s",
        "wanted = self.problem.mechanisms(None and s",
        "causal_kl",
    ),
}


def run_mutant(root: Path, work: Path, what: str) -> int:
    """Return pytest's exit code with the mutation in place."""
    file, old, new, tests = MUTATIONS[what]
    copy = work / f"mutant-{list(MUTATIONS).index(what)}"
    shutil.copytree(root / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    target = copy / "aegis" / file
    text = target.read_text()
    if old and text.count(old) != 1:
        raise SystemExit(f"{file} no longer reads as the mutation '{what}' expects; adapt it")
    target.write_text(text.replace(old, new) if old else text)
    child = os.fork()
    if child == 0:
        sys.path.insert(0, str(copy))
        sys.dont_write_bytecode = True
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            chosen = ["-k", tests] if old else []
            code = pytest.main([*PYTEST, *chosen, str(root / "tests/paper/test_equations.py")])
        os._exit(int(code))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    print(json.dumps({what: run_mutant(Path(sys.argv[1]), Path(sys.argv[2]), what) for what in MUTATIONS}))
