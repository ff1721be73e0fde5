"""The e-mail test of the MineThatData challenge: send a customer one of two e-mails or none, each with probability one third."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from aegis.adapters.base import ConvertedLog
from aegis.adapters.datasets.published_table import PublishedTable, columns_of, read_only_file
from aegis.errors import check_choice
from aegis.problem import Actions, Guard, Incumbent, Level, Problem, Propensity, Reward, Variable

FILE = "hillstrom.csv"
EMAILS = ("No E-Mail", "Mens E-Mail", "Womens E-Mail")
NO_EMAIL = EMAILS[0]  # the incumbent: what happens without a campaign
AMOUNTS = (
    "1) $0 - $100",
    "2) $100 - $200",
    "3) $200 - $350",
    "4) $350 - $500",
    "5) $500 - $750",
    "6) $750 - $1,000",
    "7) $1,000 +",
)
ZIP_CODES = ("Rural", "Surburban", "Urban")  # spelled as published
CHANNELS = ("Multichannel", "Phone", "Web")
MONTHS = 12  # the most months since the last purchase: older customers were not in the test
GUARDS = ("none", "conversion")
MAX_WORSENING = 0.005  # of the guard: half a purchase less per hundred customers
_WANTED = (
    *("recency", "history_segment", "history", "mens", "womens", "zip_code", "newbie", "channel"),
    *("segment", "visit", "conversion", "spend"),
)


def read_hillstrom(paths: Sequence[Path], guard: str = "none") -> ConvertedLog:
    """Return the published table as a log of one level, `email`; a row is a customer, an episode of one decision.

    Every row of the file is a row of the log. The file has no id: `customer` counts its rows from 1. guard: `conversion` adds a
    non-inferiority guard, so that more visits are not bought with fewer purchases. Raises LogError that names file, row and
    column.
    """
    check_choice(guard, GUARDS, "guard")
    published = read_only_file(paths, f"the {FILE} of the MineThatData challenge", _WANTED)
    visit, conversion = published.zero_one("visit"), published.zero_one("conversion")
    published.refuse((conversion == 1) & (visit == 0), "visit", "expected 1 where conversion is 1")
    spend = published.numbers("spend", "an amount from 0 on", low=0)
    published.refuse((spend > 0) & (conversion == 0), "conversion", "expected 1 where spend is above 0")
    months = published.numbers("recency", f"a number of months from 1 to {MONTHS}", low=1, high=MONTHS)
    table = pa.table(
        columns_of(
            customer=np.arange(1, len(published) + 1),
            recency=months,
            history_segment=published.text("history_segment", AMOUNTS),
            history=published.numbers("history", "an amount from 0 on", low=0),
            mens=published.zero_one("mens"),
            womens=published.zero_one("womens"),
            zip_code=published.text("zip_code", ZIP_CODES),
            newbie=published.zero_one("newbie"),
            channel=published.text("channel", CHANNELS),
            email=published.text("segment", EMAILS),
            visit=visit,
            conversion=conversion,
            spend=spend,
        )
    )
    return ConvertedLog(table, hillstrom_problem(guard), notes=_notes(published))


def hillstrom_problem(guard: str = "none") -> Problem:
    """Return the problem: a customer is an episode, a visit within two weeks its reward, and the incumbent sends no e-mail."""
    context = (
        Variable("recency"),
        Variable("history_segment", "categorical", values=AMOUNTS),
        Variable("history"),
        Variable("mens"),
        Variable("womens"),
        Variable("zip_code", "categorical", values=ZIP_CODES),
        Variable("newbie"),
        Variable("channel", "categorical", values=CHANNELS),
    )
    level = Level(
        "email", Actions.of("email", EMAILS), context, Propensity(policy="uniform"), incumbent=Incumbent(action=NO_EMAIL)
    )
    guards = (Guard("conversion", (0.0, 1.0), MAX_WORSENING, "maximise"),) if guard == "conversion" else ()
    return Problem((level,), reward=Reward("visit", (0.0, 1.0), unit="visits"), episode=("customer",), guards=guards)


def _notes(published: PublishedTable) -> tuple[str, ...]:
    sent = published.text("segment", EMAILS)
    counts = ", ".join(f"{int((sent == email).sum()):,} {email}" for email in EMAILS)
    return (
        f"every row is kept as one customer, numbered from 1 in the order of the file, which has no id: {counts}",
        "the propensities are the documented ones: one third for each e-mail and for none",
        f"the incumbent is '{NO_EMAIL}'; conversion and spend come after the decision: in the log, but not contexts",
    )
