"""What an adapter makes of a published data set: a log, the problem it belongs to, candidates that come with it, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from aegis.files import written_aside
from aegis.policies import save_policy
from aegis.problem import Policy, Problem, save_problem

LOG, PROBLEM, POLICIES = "log.parquet", "problem.yaml", "policies"


@dataclass(frozen=True, slots=True)
class Tidied:
    """A data set as a log.

    log: tidy table, one row for each row of the published file, in its order, unless a note says how many are left out and why.
    policies: by name, candidates that were fixed without the rewards of this log. notes: what was decided, in plain sentences.
    """

    log: pa.Table
    problem: Problem
    policies: Mapping[str, Policy] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def write(self, folder: str | Path) -> dict[str, Path]:
        """Write `log.parquet`, `problem.yaml` and `policies/NAME/` into a folder; return their places. Raises OutputError."""
        place = Path(folder)
        written = {"log": place / LOG, "problem": place / PROBLEM}
        with written_aside(written["log"]) as aside:
            pq.write_table(self.log, aside, compression="zstd", write_page_checksum=True)
        save_problem(self.problem, written["problem"])
        for name, policy in self.policies.items():
            written[name] = place / POLICIES / name
            save_policy(policy, written[name])
        return written
