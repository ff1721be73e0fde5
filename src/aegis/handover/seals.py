"""What holds a challenger that is code to its word: its answers on logged contexts, and the files that it is in.

A policy folder has a digest of all that decides what it does. A function, or an object of a user's own class, is known by its
name only, and what the name leads to may change while a gate runs. So at the freeze its probabilities on contexts that were
logged before are kept, with a digest of its files; they are asked for again before anything rests on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from aegis.certificate.behaviour import SETTLED, code_digest, code_modules, is_code
from aegis.errors import AegisError, PolicyError
from aegis.policies import path_full
from aegis.problem import AnyArray, Array, Batch, Policy

LOOKED_AT = 256  # decisions, at most, unless a single episode has more
FILES, NONE = " files ", "none"  # between the digest of the answers and that of the files
SAME = 1e-9  # by how much an answer may differ when it is asked for again
CLOSE = 1e-5  # of the largest answer: sums in 32 bits depend on the order of the rows


@dataclass(frozen=True, slots=True)
class Seal:
    """What a policy answered at a level: `chances` `[n, A]` on the decisions of `batch`. code: the digest of its files."""

    level: str
    batch: Batch
    chances: Array
    code: str | None

    @property
    def digest(self) -> str:
        """Return digests of answers and files, by which the same policy is known in another process."""
        answers = np.round(self.chances * SETTLED).astype(np.int64)
        return f"{sha256(str(answers.shape).encode() + answers.tobytes()).hexdigest()}{FILES}{self.code or NONE}"

    def broken(self, policy: Policy) -> str | None:
        """Return how a policy differs from what was sealed; None if it does not."""
        try:
            now = path_full(policy, self.level, self.batch)
        except Exception as error:  # any that a user's own policy raises
            return f"on contexts that it answered then it raises {type(error).__name__}: {error}"
        if now.shape != self.chances.shape:
            return f"it gives probabilities of the shape {list(now.shape)}, {list(self.chances.shape)} then"
        off = ~(np.abs(now - self.chances).max(axis=1, initial=0.0) <= SAME)
        if off.any():
            row = int(np.argmax(off))
            return (
                f"on {int(off.sum())} of {len(off)} logged contexts it gives other probabilities, at first "
                f"{np.round(now[row], 6).tolist()} where it gave {np.round(self.chances[row], 6).tolist()}"
            )
        if code_digest(policy) != self.code:
            return "the file that it is defined in has changed"
        return None


def seal_of(policy: Policy, level: str, prior: Batch) -> Seal | None:
    """Return the seal of a policy that is code, or has a member that is, on the latest episodes before its freeze.

    None for any other: its digest says everything.
    """
    if not is_code(policy):
        return None
    sizes = np.bincount(prior.episode_of(level), minlength=len(prior))[::-1]
    count = max(1, int(np.searchsorted(np.cumsum(sizes), LOOKED_AT, side="right")))
    batch = prior.take_episodes(np.arange(max(0, len(prior) - count), len(prior))).before(level)
    return Seal(level, batch, path_full(policy, level, batch), code_digest(policy))


def check_files(seal: str | None, policy: Policy, where: str) -> None:
    """Raise PolicyError if the files that the code of a kept policy is in are not those of its freeze. seal: its digest."""
    if seal is None:
        return
    expected = seal.partition(FILES)[2]
    if (code_digest(policy) or NONE) != expected:
        raise PolicyError(
            f"{where}: the code of its policy was altered after it was frozen: the file that it is defined in has changed; put "
            "back the file as it was, or let new challengers be frozen"
        )


def code_sources(policy: Policy) -> list[str]:
    """Return the modules, with their files, that the code of a policy is defined in."""
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in code_modules(policy)}
    return [f"module '{name}'" + (f" ({path})" if path else "") for name, path in files.items()]


def check_timeless(asked: object, answer: Callable[[Batch], Array], level: str, batch: Batch, where: str) -> None:
    """Raise PolicyError if code answers by the number of an episode, or by the place of a row, instead of the contexts.

    answer: of what is asked, a policy or a model, `[n, A]` for the decisions of a level.
    """
    if not is_code(asked):
        return
    known = batch.before(level)
    backwards = np.arange(len(batch))[::-1]
    other = known.take_episodes(backwards)
    other = Batch(_other_ids(other.episode), other.levels, cluster=other.cluster, time=other.time, extra=other.extra)
    rows = np.argsort(-batch.episode_of(level), kind="stable")
    before = answer(known)
    try:
        after = answer(other)
    except AegisError:
        raise
    except Exception as error:  # any that a user's own policy raises
        raise PolicyError(
            f"{where}: asked about the same contexts in episodes of other numbers, it raised {type(error).__name__}: {error}"
        ) from error
    close = CLOSE * max(1.0, float(np.abs(before).max(initial=0.0)))
    off = ~(np.abs(after - before[rows]).max(axis=1, initial=0.0) <= close)
    if off.any():
        row = int(np.argmax(off))
        raise PolicyError(
            f"{where}: asked about the same contexts in another order, in episodes of other numbers, it answers "
            f"{np.round(after[row], 6).tolist()} instead of {np.round(before[rows][row], 6).tolist()}. What is certified is what "
            "a policy does in a context: if it is to depend on a time or a number, declare that as a context"
        )


def _other_ids(ids: AnyArray) -> AnyArray:
    """Return ids that no episode has had, of the same kind."""
    if np.issubdtype(ids.dtype, np.integer):
        return ids + (2**31 if ids.dtype.itemsize >= 8 else 2**15)
    if ids.dtype.kind in "US":
        return np.array([f"another {place}" for place in range(ids.size)])
    return ids
