"""Keys of a journal, in a file of their own outside of the database: what a writer of the database cannot compute again."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from aegis.errors import OutputError, SettingError

KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class JournalKeys:
    """The key that signs, and after it those that it replaced: they are needed to check what they have signed."""

    secrets: tuple[bytes, ...] = field(repr=False)

    @property
    def current(self) -> str:
        """Return the id of the key that signs."""
        return key_id(self.secrets[0])

    def secret(self, name: str) -> bytes | None:
        """Return a key by its id; None if it is not among them."""
        return next((secret for secret in self.secrets if key_id(secret) == name), None)


def key_id(secret: bytes) -> str:
    """Return the fingerprint by which a journal names a key."""
    return sha256(b"aegis journal key id" + secret).hexdigest()[:16]


def make_journal_key(path: str | Path, replaces: str | Path | None = None) -> JournalKeys:
    """Write a new key into a file that only its owner can read, and return it. A file is never overwritten.

    Parameters
    ----------
    path : the new file.
    replaces : the file of the key that the new one takes over from; its keys are copied behind the new one.

    Raises
    ------
    SettingError : there is such a file already. OutputError : it cannot be written.
    """
    before = () if replaces is None else load_journal_keys(replaces).secrets
    keys = JournalKeys((secrets.token_bytes(KEY_BYTES), *before))
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SettingError(f"{path} is there already, and a key is never overwritten: choose another file") from error
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.writelines(f"{secret.hex()}\n" for secret in keys.secrets)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    return keys


def _is_credential(path: str | Path) -> bool:
    """Say whether systemd keeps a file for this service (LoadCredential), by an access list that shows as rights of the group."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return bool(folder) and Path(path).resolve().is_relative_to(Path(str(folder)).resolve())


def load_journal_keys(path: str | Path) -> JournalKeys:
    """Return the keys in a file; SettingError if others can read or write it, or if it holds no keys."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise SettingError(f"the journal key {path} is not a file")
            if os.name == "posix" and mode & (0o037 if _is_credential(path) else 0o077):
                raise SettingError(
                    f"the journal key {path} is open to others than its owner (mode {stat.S_IMODE(mode):04o}): 'chmod 600', and "
                    "make another key if it may have been read"
                )
            lines = file.read().split()
    except OSError as error:
        raise SettingError(f"cannot read the journal key {path}: {error.strerror or error}") from error
    try:
        keys = tuple(bytes.fromhex(line.decode("ascii")) for line in lines)
    except ValueError:
        keys = ()
    if not keys or any(len(secret) != KEY_BYTES for secret in keys):
        # Nothing of its content: a message goes into logs.
        raise SettingError(
            f"{path} is no journal key: each line is one of {KEY_BYTES} bytes in hex ('aegis store key' makes one)"
        )
    return JournalKeys(keys)
