"""Small files of the shape of the published ones, made here: no published row is in the repository."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np

from aegis.adapters.datasets.heartsteps import _WANTED
from aegis.adapters.datasets.hillstrom import AMOUNTS, CHANNELS, EMAILS, ZIP_CODES
from aegis.adapters.datasets.open_bandit import CAMPAIGNS


def suggestions(people: int = 4, days: int = 3, seed: int = 0) -> list[dict[str, str]]:
    """Decisions of a trial of this design; one in five is not available, one step count in eight is missing."""
    rng = np.random.default_rng(seed)
    rows = []
    for person in range(1, people + 1):
        for index in range(5 * days):
            available = rng.random() < 0.8
            sent = available and rng.random() < 0.6
            active = sent and rng.random() < 0.5
            steps = int(rng.integers(0, 3000))
            rows.append(
                {
                    "user.index": str(person),
                    "decision.index": str(index),
                    "sugg.select.update": f"2015/7/{1 + index // 5}",
                    "sugg.select.slot": str(1 + index % 5),
                    "avail": str(available).upper(),
                    "send": str(sent).upper() if available or index % 2 else "",
                    "send.active": str(active).upper(),
                    "send.sedentary": str(sent and not active).upper(),
                    "recognized.activity": "STILL" if available else "",
                    "dec.weather.condition": str(rng.choice(["Clear", "unknown", ""])),
                    "dec.location.category": str(rng.choice(["home", "work", "café,food", "unknown", ""])),
                    "jbsteps30": "" if rng.random() < 0.125 else str(steps),
                    "jbsteps30pre.zero": str(int(rng.integers(0, 500))),
                }
            )
    return rows


def write_suggestions(path: Path, rows: list[dict[str, str]]) -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["extra", *_WANTED], restval="x", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode("cp1252"))
    return path


def oats(blocks: int = 2, seed: int = 0) -> list[dict[str, str]]:
    """A split-plot design in the field's rows and columns: whole plots of 2 x 2."""
    rng = np.random.default_rng(seed)
    rows = []
    for block in range(blocks):
        for place, variety in enumerate(rng.permutation(["GoldenRain", "Marvellous", "Victory"])):
            for sub, nitrogen in enumerate(rng.permutation([0, 0.2, 0.4, 0.6])):
                rows.append(
                    {
                        "row": str(6 * block + 2 * place + 1 + sub // 2),
                        "col": str(1 + sub % 2),
                        "yield": str(int(rng.integers(50, 180))),
                        "nitro": f"{nitrogen:g}",
                        "gen": str(variety),
                        "block": f"B{block + 1}",
                    }
                )
    return rows


def write_oats(path: Path, rows: list[dict[str, str]]) -> Path:
    lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def impressions(logger: str, campaign: str, count: int = 200, seed: int = 0) -> list[dict[str, str]]:
    rng, items = np.random.default_rng(seed), CAMPAIGNS[campaign]
    weights = np.full(items, 1 / items) if logger == "random" else np.arange(1, items + 1) / np.arange(1, items + 1).sum()
    rows = []
    for index in range(count):
        item = int(rng.choice(items, p=weights))
        rows.append(
            {
                "": str(index),
                "timestamp": f"2019-11-24 {index // 20:02d}:{3 * (index % 20):02d}:01.{index:06d}+00:00",
                "item_id": str(item),
                "position": str(1 + index % 3),
                "click": str(int(rng.random() < 0.05)),
                "propensity_score": repr(float(weights[item])),
                "user_feature_0": "only",
                **{f"user_feature_{k}": f"value{int(rng.integers(0, k + 2))}" for k in (1, 2, 3)},
                "user-item_affinity_0": "0.0",
            }
        )
    return rows


def customers(count: int = 60, seed: int = 0) -> list[dict[str, str]]:
    """Customers of an e-mail test of this design: one visit in five, and one visit in four is a purchase."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        visit = rng.random() < 0.2
        bought = visit and rng.random() < 0.25
        rows.append(
            {
                "recency": str(int(rng.integers(1, 13))),
                "history_segment": str(rng.choice(AMOUNTS)),
                "history": f"{rng.uniform(29.99, 900):.2f}",
                "mens": str(int(rng.integers(2))),
                "womens": str(int(rng.integers(2))),
                "zip_code": str(rng.choice(ZIP_CODES)),
                "newbie": str(int(rng.integers(2))),
                "channel": str(rng.choice(CHANNELS)),
                "segment": str(rng.choice(EMAILS)),
                "visit": str(int(visit)),
                "conversion": str(int(bought)),
                "spend": "29.99" if bought else "0",
            }
        )
    return rows


def write_customers(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_bytes(csv_text(rows).encode())
    return path


def csv_text(rows: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_wheel(path: Path, campaign: str, logs: dict[str, list[dict[str, str]]]) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        for logger, rows in logs.items():
            wheel.writestr(f"obp/dataset/obd/{logger}/{campaign}/{campaign}.csv", csv_text(rows))
    return path
