"""Sampled stacks of a job, and what each sample was doing: interpreting Python, or running compiled code.

py-spy stops the process many times a second and writes down the stack of every thread that is running, native frames included.
The innermost frame decides. A sample in the interpreter itself (bytecode, objects, dictionaries, its allocator) ends in a frame
of Python or of libpython; both count as Python, and so does every library that is not named below. A frame of the C library or of
the system counts for whoever called it. A thread that waits for a lock or for another thread takes no time and is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

PYTHON, CALLS = "Python", "calls of numpy and Arrow"
# Libraries by what their code is counted as; whatever is not named here counts as Python.
LIBRARIES = {
    "openblas": "BLAS, LAPACK",
    "flapack": "BLAS, LAPACK",
    "fblas": "BLAS, LAPACK",
    "libarrow": "Arrow",
    "libparquet": "Arrow",
    "pyarrow": CALLS,  # Cython between the interpreter and Arrow
    "numpy": "numpy",
    "scipy": "scipy",
    "hashlib": "hashing",
    "libcrypto": "hashing",
    "_sha": "hashing",
    "_blake2": "hashing",
    "zlib": "files",
    "libz": "files",
}
SYSTEM = re.compile(r"libc[.-]|ld-linux|libpthread|libm[.-]|libstdc|libgcc|vdso|\[kernel|unknown")
FILES = re.compile(r"^_*(libc_)?(read|write|pread|pwrite|open|close|fsync|lseek|fstat|stat|mmap|rename|unlink)(64|at)?$")
WAITING = re.compile(r"cond_(timed)?wait|futex|sem_|acquire_lock|::Wait|^e?poll|select$|nanosleep|clock_gettime")
# Functions of numpy that do not touch elements: they take arguments apart, find types and loops, make and free arrays.
BOOKKEEPING = re.compile(
    r"^(Py|_Py|array_(?!sort|argsort|take|dot)|ufunc_|npyiter_|NpyIter_|convert_|resolve_|promote_|get_|try_|prepare_|check_|"
    r"find_|dispatch|_?unpack|_?parse|npy_(parse|cast|alloc|free|default)|default_|raw_array|execute_|trivial_|setup_|object_|"
    r"arr(ay)?descr|descr_|dtype_|discover|view|NPY_|_npy_|init_|lookup_|legacy_|generic_wrapped|broadcast_|is_|mapiter_(?!trivial|get|set)|"
    r"0x)"
)


@dataclass(slots=True)
class Profile:
    """Shares of the samples. parts: by what was running. places: by function of aegis; python: what of that was Python.

    leaves: by library and innermost function, of samples that were not Python. taken: what `profile_jobs` printed. perf: the
    share of samples in the interpreter's library by perf, which knows nothing of stacks; None without perf.
    """

    samples: int = 0
    parts: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    python: Counter[str] = field(default_factory=Counter)
    leaves: Counter[str] = field(default_factory=Counter)
    taken: dict[str, float] = field(default_factory=dict)
    perf: float | None = None

    def share(self, part: str) -> float:
        """Return the share of the processor time, that of threads which are not sampled included: they run Arrow."""
        outside = self.taken["others"] / max(self.taken["cpu"], 1e-9)
        own = self.parts[part] / max(self.samples, 1) * (1 - outside)
        return own + outside if part == "Arrow" else own


def read(text: str) -> Profile:
    """Return the profile of stacks as py-spy writes them: frames from the outermost on, `;` between them, then a count."""
    found = Profile()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_frame(text) for text in stack.split(";")]
        if waits(frames):
            continue
        part, leaf = classified(frames)
        times = int(count)
        found.samples += times
        found.parts[part] += times
        place = _place(frames)
        found.places[place] += times
        if part == PYTHON:
            found.python[place] += times
        else:
            found.leaves[f"{part}: {leaf}"] += times
    return found


def classified(frames: list[tuple[str, str]]) -> tuple[str, str]:
    """Return what a stack was doing, and the innermost function that says so."""
    for name, where in reversed(frames):
        if _interpreted(where):
            return PYTHON, name
        if SYSTEM.search(where):
            if FILES.match(name):
                return "files", name
            continue
        part = next((part for library, part in LIBRARIES.items() if library in where), PYTHON)
        if part == "numpy" and BOOKKEEPING.match(name):
            return CALLS, name
        return part, name
    return PYTHON, "?"


def waits(frames: list[tuple[str, str]]) -> bool:
    """Say whether a stack ends in waiting: in a frame of the system that waits, or one directly called by who waits."""
    for name, where in reversed(frames):
        if WAITING.search(name):
            return True
        if not SYSTEM.search(where):
            return False
    return False


def _frame(text: str) -> tuple[str, str]:
    name, _, where = text.rpartition(" (")
    return name, where.removesuffix(")")


def _interpreted(where: str) -> bool:
    return where.partition(":")[0].endswith(".py") or where.startswith("<")


def _place(frames: list[tuple[str, str]]) -> str:
    """Return the innermost function of aegis: where in our own code the time goes."""
    for name, where in reversed(frames):
        file = where.partition(":")[0]
        if file.startswith("aegis/") or "/aegis/" in file:
            return f"`{file[file.index('aegis/') :].removeprefix('aegis/')}` {name}"
    return "outside"
