"""Which data a certificate speaks of: a digest of every part of the log, and one of them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aegis.certificate.rows import RowSums
from aegis.logs import Source, part_digests, total_digest
from aegis.problem import Batch


@dataclass(frozen=True, slots=True)
class DataDigest:
    """The digest of all parts in their order, the same as `log_digest` gives, and the parts by name."""

    total: str
    files: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, source: Source) -> DataDigest:
        """Read every part once; LogError if one cannot be read."""
        digests = part_digests(source.files)
        files = zip(source.files, digests, strict=True)
        return cls(
            total_digest(digests).hex(),
            tuple({"name": Path(part.name).name, "digest": digest.hex()} for part, digest in files),
        )

    @property
    def digests(self) -> tuple[str, ...]:
        """Return the digest of each part."""
        return tuple(file["digest"] for file in self.files)

    def with_rows(self, sums: RowSums) -> DataDigest:
        """Return the parts with the checksums of their rows (None where the log is too long for them)."""
        found = sums.files(len(self.files))
        rows = (None,) * len(self.files) if found is None else tuple(found)
        return replace(self, files=tuple({**file, "rows": own} for file, own in zip(self.files, rows, strict=True)))

    def known_by(self, head: Sequence[Batch]) -> tuple[dict[str, Any], ...]:
        """Return the parts with checksums of the rows in the head of the log, by which the ledger knows a log that grew.

        Further columns that candidates read do not count, so that the checksums are the same whatever the candidate.
        """
        sums = RowSums()
        for batch in head:
            sums.add(replace(batch, extra={}))
        return self.with_rows(sums).files

    @property
    def named(self) -> list[dict[str, str]]:
        """Return name and digest of each part."""
        return [{"name": file["name"], "digest": file["digest"]} for file in self.files]

    @property
    def rows(self) -> list[dict[str, Any]] | None:
        """Return the checksums of the rows of each part; None if they are not known."""
        found = [file["rows"] for file in self.files if file.get("rows") is not None]
        return found if len(found) == len(self.files) else None

    def learned_parts(self, log: Mapping[str, Any]) -> list[str]:
        """Return the names of the parts that are among those of the log that a policy's record names."""
        known = set(log.get("digests", ()))
        total = log.get("digest")
        return [
            file["name"]
            for file in self.files
            # A log of one part has the digest of that part's digest: older records name no parts.
            if file["digest"] in known or total_digest([bytes.fromhex(file["digest"])]).hex() == total
        ]
