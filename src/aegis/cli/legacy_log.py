"""The log of a simulated plant under its legacy, written into a folder that holds nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aegis.errors import OutputError
from aegis.files import folder_lock, write_text
from aegis.logs import write_log
from aegis.problem import Batch, Policy, Problem, save_problem
from aegis.worlds import World

SIMULATED_LOG, SIMULATED_PROBLEM, SIMULATED_SUMMARY = SIMULATED_FILES = ("log.parquet", "problem.yaml", "summary.json")
WRITER = "aegis simulate --legacy"  # what the summary says, and by which this command knows its own files
EPISODES_AT_ONCE, DECISIONS_AT_ONCE = 2048, 1 << 20  # simulated at once, at most


def write_legacy_log(
    out: Path,
    plant: World,
    behaviour: Policy,
    episodes: int,
    seed: int,
    problem: Problem,
    about: dict[str, Any],
    report: Callable[[int, str], None],
) -> dict[str, Any]:
    """Write log, problem and summary into `out` and return the summary; `report(done, note)` is called now and then.

    The summary comes first, with `complete: false`, and again last: after an interruption the folder shows that it
    is not complete, and the same command may use it again. Raises OutputError if the folder holds files of that name that
    this command did not write.
    """
    begun = {
        "written_by": WRITER,
        "complete": False,
        **about,
        "seed": seed,
        "episodes": episodes,
        "log": str(out / SIMULATED_LOG),
    }
    total = 0.0

    def batches() -> Iterator[Batch]:
        nonlocal total
        step = max(1, min(EPISODES_AT_ONCE, DECISIONS_AT_ONCE // math.prod(plant.steps)))
        for first in range(0, episodes, step):
            batch = plant.episodes(first, min(step, episodes - first), behaviour, seed)
            if batch.reward is not None:
                total += float(batch.episode_means(batch.reward).sum())
            report(first + len(batch), "")
            yield batch

    with folder_lock(out):
        _refuse_other_files(out)
        for name in SIMULATED_FILES:
            for stale in out.glob(f".{name}.*.part"):
                stale.unlink(missing_ok=True)
        _write_summary(out, begun)
        try:
            write_log(batches(), problem, out / SIMULATED_LOG)
        except BaseException:
            if not (out / SIMULATED_LOG).exists():  # nothing came of it: leave the folder as it was found
                (out / SIMULATED_SUMMARY).unlink(missing_ok=True)
            raise
        save_problem(problem, out / SIMULATED_PROBLEM)
        summary = {**begun, "complete": True, "mean_reward": total / episodes}
        _write_summary(out, summary)
    return summary


def _refuse_other_files(out: Path) -> None:
    present = [name for name in (*SIMULATED_FILES, "settings.json") if (out / name).exists()]
    if present and ("settings.json" in present or not _is_own_summary(out / SIMULATED_SUMMARY)):
        raise OutputError(f"{out} holds {', '.join(present)}, not written by '{WRITER}'; choose another folder")


def _is_own_summary(path: Path) -> bool:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("written_by") == WRITER


def _write_summary(out: Path, content: dict[str, Any]) -> None:
    write_text(out / SIMULATED_SUMMARY, json.dumps(content, indent=2) + "\n")
