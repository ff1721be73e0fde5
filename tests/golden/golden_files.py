"""Golden files: what commands answered once, kept, and compared with what they answer now.

Numbers, keys and short words count; sentences, digests, versions, dates and paths do not. `AEGIS_GOLDEN=write` writes the
files anew, `AEGIS_GOLDEN=exact` compares every bit, which holds on one machine.
"""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "files"
MODE = os.environ.get("AEGIS_GOLDEN", "close")
CLOSE = 1e-7  # relative: other processors round sums of products differently
SKIPPED = {"version", "versions", "created", "made", "date", "machine", "seconds", "digest", "head", "time", "times", "python"}
_DIGEST = re.compile(r"[0-9a-f]{12,}")
_WORD = re.compile(r"[\w.:,=+-]{1,40}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T.*")


def reduce(value: Any) -> Any:
    """Return what counts in a document: keys, numbers, truth values and single words."""
    if isinstance(value, dict):
        return {str(name): reduce(item) for name, item in value.items() if str(name) not in SKIPPED}
    if isinstance(value, list | tuple):
        return [reduce(item) for item in value]
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and not _DIGEST.search(value) and not _MOMENT.match(value) else "..."
    return value


def differences(before: Any, now: Any, place: str = "") -> list[str]:
    """Return the places where two reduced documents differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = sorted({*before, *now})
        missing = [
            f"{place}.{name}: {'gone' if name in before else 'new'}" for name in names if (name in before) != (name in now)
        ]
        both = [
            item
            for name in names
            if name in before and name in now
            for item in differences(before[name], now[name], f"{place}.{name}")
        ]
        return missing + both
    if isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            return [f"{place}: {len(before)} items, now {len(now)}"]
        return [
            item
            for at, (one, two) in enumerate(zip(before, now, strict=True))
            for item in differences(one, two, f"{place}[{at}]")
        ]
    if _numbers(before, now) and MODE != "exact":
        return [] if math.isclose(before, now, rel_tol=CLOSE, abs_tol=1e-12) else [f"{place}: {before!r}, now {now!r}"]
    return [] if before == now and type(before) is type(now) else [f"{place}: {before!r}, now {now!r}"]


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def one_line_each(document: Any) -> str:
    """Return JSON with one line for each entry of the document."""
    if not isinstance(document, dict | list):
        return json.dumps(document) + "\n"
    items = sorted(document.items()) if isinstance(document, dict) else [(None, item) for item in document]
    lines = [f"{'' if name is None else json.dumps(name) + ': '}{json.dumps(item, sort_keys=True)}" for name, item in items]
    start, end = "{}" if isinstance(document, dict) else "[]"
    return f"{start}\n" + ",\n".join(lines) + f"\n{end}\n"


def check(name: str, document: Any) -> None:
    """Compare a document with its golden file, or write that file."""
    path = FILES / f"{name}.json"
    now = json.loads(json.dumps(reduce(document)))
    if MODE == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one_line_each(now))
        return
    found = differences(json.loads(path.read_text()), now)
    assert not found, f"{len(found)} differences from {path.name}:\n" + "\n".join(found[:20])
