"""Plants mutations in a copy of the package, one at a time, and runs the tests of the equations against each.

Run as a script: `python mutants.py ROOT WORK`; prints one JSON object, mutation -> exit code of pytest. Heavy libraries
are imported once; each mutant runs in a fork of this process.
"""

import compileall
import contextlib
import io
import json
import os
import shutil
import sys
from pathlib import Path

# Imported before the forks, so that each of them need not.
import numpy
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
import pydantic
import pytest
import scipy.linalg
import scipy.special
import scipy.stats
import yaml

LIBRARIES = (numpy, pyarrow.compute, pyarrow.csv, pyarrow.parquet, scipy.linalg, scipy.special, scipy.stats, yaml)
pydantic.create_model("Any", number=(int, 0))  # what builds models is imported with the first one
pyarrow.array([0.0])  # imports pandas, where it is installed
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
# Only exit codes are looked at: that nothing is told of a failure saves rewriting the tests in every fork.
PYTEST = ["-o", "addopts=", "-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "--tb=no"]

TESTS = ("test_equations.py", "test_algorithm_1.py", "test_assumption_3.py")

# what: (file, text, mutated text, which of the tests must catch it)
MUTATIONS: dict[str, tuple[str, str, str, str]] = {
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
        "values).max(axis=-1)",
        "values).min(axis=-1)",
        "recursion[2",
    ),
    "controlled and legacy levels swapped": (
        "planning/recursion.py",
        "if child in self.scope",
        "if child not in self.scope",
        "pi_ell_ts_policy_and_ck_ts[2",
    ),
    "outcome noise forgotten": (
        "planning/recursion.py",
        "count, {outcome.name: functions[outcome.name].sd})",
        "count)",
        "recursion[1-polynomial",
    ),
    "policy takes the smallest value": (
        "planning/base.py",
        "np.argmax(values, axis=-1)",
        "np.argmin(values, axis=-1)",
        "pi_ell_ts_policy_and_ck_ts[1",
    ),
    "mean context with the wrong sign": (
        "planning/integration.py",
        "mean[:, :, None, :] +",
        "-mean[:, :, None, :] +",
        "recursion[2",
    ),
    "evidence subtracted": ("mechanisms/normal_inverse_gamma.py", "self.shift + temper *", "self.shift - temper *", "nig_update"),
    "a whole count per row": (
        "mechanisms/normal_inverse_gamma.py",
        "0.5 * temper * features.shape[0]",
        "temper * features.shape[0]",
        "nig_update",
    ),
    "rate with the wrong sign": (
        "mechanisms/normal_inverse_gamma.py",
        "0.5 * (self.square - np",
        "0.5 * (self.square + np",
        "right_rows",
    ),
    "KL with shapes swapped": (
        "mechanisms/normal_inverse_gamma.py",
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
    "the parent of the row before": (
        "problem/batch.py",
        "self.levels[name].parent[rows]",
        "self.levels[name].parent[rows - 1]",
        "right_rows",
    ),
    "the path from the outside in": (
        "problem/batch.py",
        "for name in reversed(names[: position + 1]):",
        "for name in names[: position + 1]:",
        "lies_on_the_path",
    ),
    "paths end one level too early": (
        "problem/batch.py",
        "for name in reversed(names[: position + 1]):",
        "for name in reversed(names[:position]):",
        "lies_on_the_path",
    ),
    "draws around minus the mean": (
        "mechanisms/normal_inverse_gamma.py",
        "weights = at.mean + sd",
        "weights = -at.mean + sd",
        "have_the_law",
    ),
    "draws spread three times as far": (
        "mechanisms/normal_inverse_gamma.py",
        "at.mean + sd[",
        "at.mean + 3 * sd[",
        "have_the_law",
    ),
    "draws with too little noise": (
        "mechanisms/normal_inverse_gamma.py",
        "np.sqrt(at.rate / rng",
        "np.sqrt(0.9 * at.rate / rng",
        "have_the_law",
    ),
    "one draw for all particles": (
        "mechanisms/normal_inverse_gamma.py",
        "normal = rng.standard_normal((size, count * outputs))",
        "normal = rng.standard_normal((size, 1)) * np.ones(count * outputs)",
        "have_the_law",
    ),
    "nothing is learned between episodes": (
        "agents/online_run.py",
        "            belief = belief.update(batch)",
        "            belief.update(batch)",
        "episode_by_episode",
    ),
    "drawn from a belief that has learned nothing": (
        "agents/online_run.py",
        "self.policy(belief, episode)",
        "self.policy(self.prior(), episode)",
        "draws_anew",
    ),
    "the same random numbers in every episode": (
        "agents/online_run.py",
        '"agent", self.agent.name, episode)',
        '"agent", self.agent.name)',
        "draws_anew",
    ),
    "nothing is adjusted for": ("problem/graph.py", "adjust = set(given)", "adjust = set()", "assumption_3_on_the_complete"),
    "parents are not married": (
        "problem/graph.py",
        "linked[a].update(b for b in family if b != a)",
        "linked[a].update(b for b in family if b != a and node in (a, b))",
        "assumption_3_on_random",
    ),
    "latents are not in the graph": ("problem/graph.py", "full[child].append(latent)", "pass", "assumption_3_on_the_complete"),
}
# Without a mutation, the tests that catch one pass.
MUTATIONS["nothing at all"] = ("version.py", "", "", " or ".join(dict.fromkeys(tests for *_, tests in MUTATIONS.values())))


def compiled_copy(root: Path, work: Path) -> Path:
    """Return a copy of the package with its byte code, from which each mutant compiles one file only.

    Byte code that is there already is copied: it knows its source by size and time, which are copied too.
    """
    copy = work / "pristine"
    shutil.copytree(root / "src", copy)
    if not compileall.compile_dir(copy, quiet=1):
        raise SystemExit("the package does not compile")
    return copy


def run_mutant(root: Path, pristine: Path, what: str) -> int:
    """Return pytest's exit code with the mutation in place."""
    file, old, new, tests = MUTATIONS[what]
    copy = pristine.parent / f"mutant-{list(MUTATIONS).index(what)}"
    shutil.copytree(pristine, copy, copy_function=os.link)  # the same files, but for the mutated one
    target = copy / "aegis" / file
    text = target.read_text()
    if old and text.count(old) != 1:
        raise SystemExit(f"{file} no longer reads as the mutation '{what}' expects; adapt it")
    target.unlink()
    target.write_text(text.replace(old, new) if old else text)
    for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
        compiled.unlink()
    child = os.fork()
    if child == 0:
        sys.path.insert(0, str(copy))
        sys.dont_write_bytecode = True
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = pytest.main([*PYTEST, "-k", tests, *[str(root / "tests/paper" / name) for name in TESTS]])
        os._exit(int(code))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    root, work = Path(sys.argv[1]), Path(sys.argv[2])
    pristine = compiled_copy(root, work)
    print(json.dumps({what: run_mutant(root, pristine, what) for what in MUTATIONS}))
