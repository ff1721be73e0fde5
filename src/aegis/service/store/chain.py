"""The chain of a journal: the hash of a record covers the record and the hash before it.

Without a key it is a SHA-256, which anyone can compute. From a record of the kind `journal key` on it is an HMAC-SHA256. The
first such record is signed by the key that it names; a further one by the key before it, and the records after it by the new one.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from aegis.errors import InputError, SettingError
from aegis.service.http_errors import StoreDamaged
from aegis.service.store.journal_keys import JournalKeys

START = "0" * 64  # the hash before the first record
JOURNAL_KEY = "journal key"  # kind of the records that say by which key the journal goes on
PLAIN_COLUMNS = ("seq", "at", "kind", "episode", "key", "request", "body")
SIGNED_COLUMNS = ("gate", *PLAIN_COLUMNS, "caller")


@dataclass(frozen=True, slots=True)
class ChainHead:
    """A record at which a chain ends. signer: id of the key that signed it, None if none did. signing: of the next record's."""

    gate: str
    seq: int = 0
    hash: str = START
    signer: str | None = None
    signing: str | None = None

    @property
    def text(self) -> str:
        """Return it as a line that can be kept elsewhere (`parse_heads`)."""
        return f"{self.gate} {self.seq} {self.hash}"

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"gate": self.gate, "seq": self.seq, "hash": self.hash}

    def follow(self, row: Mapping[str, Any], keys: JournalKeys | None) -> ChainHead:
        """Return the head after a row that is to be written; its hash is computed here."""
        signer, signing = self._keys_after(row)
        return ChainHead(self.gate, row["seq"], self._hash(row, signer, keys), signer, signing)

    def check(self, row: Mapping[str, Any], keys: JournalKeys | None) -> ChainHead:
        """Return the head after a row that was read; StoreDamaged unless it follows from this one.

        keys: None if the row's hash cannot be checked where it is signed by a key; its number still is.
        """
        if row["seq"] != self.seq + 1:
            raise StoreDamaged(f"gate '{self.gate}': record {self.seq + 1} is missing; restore a backup")
        signer, signing = self._keys_after(row)
        if signer is None or keys is not None:
            expected = self._hash(row, signer, keys)
            if not hmac.compare_digest(expected.encode(), str(row["hash"]).encode("utf-8", "replace")):
                raise StoreDamaged(f"gate '{self.gate}': record {row['seq']} was altered, or one before it; restore a backup")
        return ChainHead(self.gate, row["seq"], str(row["hash"]), signer, signing)

    def skip_to(self, row: Mapping[str, Any]) -> ChainHead:
        """Return the head after a row whose hash cannot be checked here, since rows before it are in an archive."""
        signer, signing = self._keys_after(row)
        return ChainHead(self.gate, row["seq"], str(row["hash"]), signer, signing)

    def check_end(self, keys: JournalKeys | None) -> None:
        """Raise an error unless a journal may end here: with a key in use, its last record is signed by the current one.

        That the journal names the key would not do: who knows a key that was replaced could go on with it, and name the new one.

        Raises
        ------
        SettingError : the key is needed and not known. StoreDamaged : the last record is not signed by it.
        """
        if self.seq == 0 or (keys is None and self.signing is None):
            return
        if keys is None:
            raise SettingError(
                f"the journal of gate '{self.gate}' is signed by the key {self.signing}: name the file that holds it, with "
                "--journal-key or AEGIS_JOURNAL_KEY_FILE"
            )
        if self.signer != keys.current:
            signed = "has no signature" if self.signer is None else f"is signed by the key {self.signer}"
            raise StoreDamaged(
                f"the last record of gate '{self.gate}' ({self.seq}) {signed}, expected one of the key {keys.current}. If this "
                "key was not used before, begin with 'aegis store rekey'; if it was, the journal was altered: restore a backup"
            )

    def _keys_after(self, row: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return the ids of the keys that sign a row and the one after it."""
        if row["kind"] != JOURNAL_KEY:
            return self.signing, self.signing
        try:
            named = named_key(json.loads(row["body"]))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(f"gate '{self.gate}': record {row['seq']} names no key; restore a backup") from error
        return self.signing or named, named

    def _hash(self, row: Mapping[str, Any], signer: str | None, keys: JournalKeys | None) -> str:
        if signer is None:
            return _plain_hash(self.hash, row)
        secret = None if keys is None else keys.secret(signer)
        if secret is None:
            raise SettingError(
                f"gate '{self.gate}': record {row['seq']} is signed by the journal key {signer}, which is not known here: name "
                "the file that holds it (--journal-key); it holds the keys that were replaced, too"
            )
        message = json.dumps([self.hash, *(row[name] for name in SIGNED_COLUMNS)], separators=(",", ":"), default=repr)
        return hmac.digest(secret, message.encode(), "sha256").hex()


def named_key(body: Mapping[str, Any]) -> str:
    """Return the id of the key that a record of the kind `journal key` names."""
    return str(body["id"])


def _plain_hash(head: str, row: Mapping[str, Any]) -> str:
    """Return the hash of a record without a key. One without a caller has the hash that it had before callers were kept."""
    chained = [row[name] for name in PLAIN_COLUMNS] + ([] if row["caller"] is None else [row["caller"]])
    text = "\n".join([head, *("" if field is None else str(field) for field in chained)])
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def parse_heads(text: str) -> list[ChainHead]:
    """Return the heads in a text, one in each line: `GATE SEQ HASH`, or the JSON of `GET /v1/head`; InputError if one is none."""
    heads = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            if line.lstrip().startswith("{"):
                plain = json.loads(line)
                gate, seq, digest = plain["gate"], plain["seq"], plain["hash"]
            else:
                gate, seq, digest = line.strip().rsplit(None, 2)  # the name of a gate may have blanks
            head = ChainHead(str(gate), int(seq), str(digest).lower())
            if head.seq < 1 or len(bytes.fromhex(head.hash)) != 32:
                raise ValueError("not a record")
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"line {number} is no head of a journal: expected 'GATE SEQ HASH', as 'aegis store head' prints"
            ) from error
        heads.append(head)
    return heads
