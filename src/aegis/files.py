"""Files written in one step, so that a reader never sees half of one, private files, and a lock: one writer per folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from aegis.errors import OutputError

try:
    import fcntl
except ImportError:  # not on this system: folders are not locked
    fcntl = None  # type: ignore[assignment]

try:
    import pwd
except ImportError:  # not on this system: files have no modes
    pwd = None  # type: ignore[assignment]

LOCK = ".aegis.lock"


@contextlib.contextmanager
def atomic_write(path: str | Path, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes `path`'s place, on any error it is removed.

    private: only the owner can read it (mode 0600), and folders that are missing (mode 0700).
    Raises OutputError, with the system's reason, if the place cannot be written or the disk is full.
    """
    target = Path(path)
    aside = target.parent / f".{target.name}.{secrets.token_hex(8)}.part"
    try:  # named before it exists, so that an interruption removes it too
        if private:
            make_private_folder(target.parent)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600 if private else 0o666))
        yield aside
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(aside, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # there may be nothing to remove
            aside.unlink(missing_ok=True)


def is_partial_file(path: Path) -> bool:
    """Return whether a file was left by `atomic_write` in a process that was killed in the middle of a write."""
    return path.name.startswith(".") and path.name.endswith(".part")


@contextlib.contextmanager
def folder_lock(folder: str | Path) -> Iterator[None]:
    """Hold `folder`, which is created if need be, against other processes and threads that ask for it the same way.

    Raises OutputError at once if another process holds it, or if it cannot be written. The system releases the lock of a
    process that was killed. On a system without locks nothing is held.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle = _lock(place / LOCK)
    except BlockingIOError as error:
        raise OutputError(f"another process is writing into {place}; wait until it is done, or choose another folder") from error
    except OSError as error:
        raise OutputError(f"cannot write into {place}: {error.strerror or error}") from error
    try:
        yield
    finally:
        if handle is not None:
            # Removed before it is released: a process that opened it in between notices that it is no longer the folder's lock.
            (place / LOCK).unlink(missing_ok=True)
            os.close(handle)


def _lock(path: Path) -> int | None:
    """Return the handle of the locked file; raise BlockingIOError if another one holds it."""
    while fcntl is not None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:  # a file system without locks
            os.close(handle)
            path.unlink(missing_ok=True)
            return None
        if _same_file(handle, path):
            return handle
        os.close(handle)  # the holder before us removed the file after we had opened it
    return None


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in one step."""
    with atomic_write(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")  # the same bytes, and digest, on every system


def make_private_folder(folder: str | Path) -> None:
    """Create a folder, and those above it that are missing, for its owner alone (mode 0700). Others stay as they are."""
    place = Path(folder)
    for item in (*reversed(place.parents), place):
        item.mkdir(mode=0o700, exist_ok=True)


def create_private_file(path: str | Path) -> None:
    """Create an empty file for its owner alone (mode 0600), unless there is one or it cannot be made."""
    # One that is there is not opened: closing it would release the locks that this process holds on it, such as SQLite's.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def describe_open_files(paths: Iterable[Path]) -> str | None:
    """Return a warning that names the files that others than their owner may use; None if there are none."""
    modes = dict[Path, int]()
    for path in paths:
        with contextlib.suppress(OSError):  # there may be no such file
            modes[path] = stat.S_IMODE(path.stat().st_mode)
    wide = {path: mode for path, mode in modes.items() if mode & 0o077}
    if not wide or os.name != "posix":
        return None
    names = ", ".join(f"{path} (mode {mode:04o})" for path, mode in wide.items())
    return f"open to others than the owner: {names}; mend it with: chmod 600 {shlex.join(map(str, wide))}"


def describe_denied_access(path: Path) -> str | None:
    """Return which of an SQLite file, those beside it and its folder this process may not use, and what to do; None if it may."""
    if pwd is None:
        return None
    account = _account(os.geteuid())
    for place in (*sqlite_files(path), path.parent):  # the folder too: SQLite makes files in it
        try:
            about = place.stat()
        except FileNotFoundError:
            continue
        except OSError:
            return f"the account {account}, as which this process runs, may not look into {place.parent}"
        folder = stat.S_ISDIR(about.st_mode)
        if os.access(place, os.R_OK | os.W_OK | (os.X_OK if folder else 0)):
            continue
        owner, mode = _account(about.st_uid), f"mode {stat.S_IMODE(about.st_mode):04o}"
        if about.st_uid == os.geteuid():
            return f"{place} ({mode}) cannot be read and written: chmod {'700' if folder else '600'} {shlex.quote(str(place))}"
        return (
            f"{place} belongs to the account {owner} ({mode}), and this process runs as {account}, which may not read and write "
            f"it: run it as {owner} (sudo -u {owner} ...), or change the owner"
        )
    return None


def _account(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def sqlite_files(path: Path) -> tuple[Path, ...]:
    """Return an SQLite file and those that SQLite keeps beside it, which get the mode of the first one."""
    return path, Path(f"{path}-wal"), Path(f"{path}-shm")


def json_digest(value: object) -> str:
    """Return a hex digest of a JSON-like value, the same on every machine."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system allows a folder to be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
