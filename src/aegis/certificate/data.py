"""Which data a certificate speaks of: a digest of every part of the log, and one of them all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from aegis.logs import Source


@dataclass(frozen=True, slots=True)
class DataDigest:
    """The digest of all parts in their order, the same as `log_digest` gives, and the parts by name."""

    total: str
    files: tuple[dict[str, str], ...]

    @classmethod
    def of(cls, source: Source) -> DataDigest:
        """Read every part once; LogError if one cannot be read."""
        total = hashlib.sha256()
        files = []
        for part in source.files:
            digest = part.digest()
            total.update(digest)
            files.append({"name": Path(part.name).name, "digest": digest.hex()})
        return cls(total.hexdigest(), tuple(files))
