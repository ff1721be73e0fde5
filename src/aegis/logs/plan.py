"""What is to be read of a log, checked as far as it can be without reading all rows; it can be sent to another process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from aegis.logs.blocks import LogFile
from aegis.logs.convert import convert
from aegis.logs.schema import Column
from aegis.logs.spans import Span
from aegis.logs.survey import Survey
from aegis.problem.places import Places


@dataclass(frozen=True, slots=True)
class Plan:
    """The opened files, the columns, and what a survey of the ids found."""

    files: tuple[LogFile, ...]
    columns: tuple[Column, ...]
    survey: Survey

    @property
    def names(self) -> tuple[str, ...]:
        """Return what messages call the files."""
        return tuple(file.name for file in self.files)

    def only(self, *roles: str) -> Plan:
        """Return the plan to read the columns of some roles."""
        return replace(self, columns=tuple(column for column in self.columns if column.role in roles))

    def tables(self, rows: int, spans: Sequence[Span] | None = None) -> Iterator[pa.Table]:
        """Yield converted tables of at most `rows` rows, of some spans or of the whole log."""
        wanted = list(dict.fromkeys(column.name for column in self.columns))
        repeated = [name for name in wanted if all(column.repeated for column in self.columns if column.name == name)]
        chosen = [Span(index) for index in range(len(self.files))] if spans is None else spans
        for span in chosen:
            file, first = self.files[span.file], span.stretch.first
            for block in file.blocks(wanted, rows, repeated, span.stretch):
                places = Places.following(self.names, span.file, first, block.num_rows)
                yield convert(block, self.columns, self.survey.types, places, file.decimals)
                first += block.num_rows
