"""The chart of `explain` (matplotlib): mean probabilities of policy and incumbent, and where they differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from aegis.files import atomic_write

if TYPE_CHECKING:
    from aegis.policies import LevelContrast
    from aegis.problem import Problem

SHOWN_BINS = 12  # bins drawn for each level


def draw_contrast(contrasts: list[LevelContrast], problem: Problem, path: Path) -> None:
    """Write one row of two charts for each level; the format follows the ending of the file's name."""
    from aegis.errors import OutputError

    figure = _figure(contrasts, problem)
    kinds = figure.canvas.get_supported_filetypes()
    kind = path.suffix.lower().lstrip(".")
    if kind not in kinds:
        raise OutputError(f"cannot write {path}: a picture ends in one of {', '.join(f'.{name}' for name in sorted(kinds))}")
    with atomic_write(path) as aside:
        figure.savefig(aside, format=kind, dpi=120)


def _figure(contrasts: list[LevelContrast], problem: Problem) -> Any:
    from matplotlib.figure import Figure  # not pyplot: no window, no global state

    figure = Figure(figsize=(10, 3.2 * len(contrasts)), layout="constrained")
    axes = figure.subplots(len(contrasts), 2, squeeze=False)
    for (left, right), level in zip(axes, contrasts, strict=True):
        actions = problem.level(level.level).actions
        places = range(actions.count)
        left.bar([place + 0.2 for place in places], level.policy, width=0.4, label="policy")
        if level.comparator is not None:
            left.bar([place - 0.2 for place in places], level.comparator, width=0.4, label="incumbent")
        step = max(1, actions.count // 10)
        left.set_xticks(list(places)[::step], [_short(value) for value in actions.values[::step]])
        left.set(title=f"{level.level}: {actions.column}", ylabel="mean probability")
        left.legend()
        parts = level.bins[:SHOWN_BINS][::-1]
        right.barh(range(len(parts)), [part.difference.total_variation for part in parts])
        right.set_yticks(range(len(parts)), [f"{part.variable} {part.label}" for part in parts])
        right.set(title="total variation by context", xlim=(0, 1))
    return figure


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
