"""Pictures of results: one function for each kind, drawn on axes; vector and PNG, told apart in grey by marks and hatches."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aegis.errors import SettingError, choose
from aegis.experiments.bench import Figure
from aegis.experiments.figures.bars import bars, flips, grouped
from aegis.experiments.figures.lines import banner, convergence, curves, sweep
from aegis.experiments.results import Missing, Results
from aegis.files import written_aside

Draw = Callable[[Any, Results, Figure], None]
FIGURES: Mapping[str, Draw] = {
    "banner": banner,
    "bars": bars,
    "convergence": convergence,
    "curves": curves,
    "flips": flips,
    "grouped": grouped,
    "sweep": sweep,
}
SIZE = (5.2, 3.4)  # inches: a column of a page
KINDS = {"svg": 72, "pdf": 72, "png": 200}


def check_drawing() -> None:
    """Raise SettingError, before anything is computed, if pictures cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SettingError("figures need matplotlib: install it with pip install 'aegis-handover[report]', or leave them out")


def draw_all(results: Results, folder: Path, kinds: tuple[str, ...] = ("svg", "png")) -> list[str]:
    """Write every figure of a bench and return their names without endings; one whose numbers are missing is left out."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas  # not pyplot: no window, no global state

    for kind in kinds:
        choose(kind, KINDS, "kind of picture")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    # Fixed ids and no date: the same numbers give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "aegis", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        for number, wanted in enumerate(results.bench.figures, 1):
            canvas = Canvas(figsize=SIZE, layout="constrained")
            try:
                FIGURES[wanted.kind](canvas.add_subplot(), results, wanted)
            except Missing:
                continue
            name = f"{results.bench.name}-{number}"
            for kind in kinds:
                with written_aside(folder / f"{name}.{kind}") as aside:
                    date = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else {}
                    canvas.savefig(aside, format=kind, dpi=KINDS[kind], metadata=date)
            written.append(name)
    return written
