"""Files are written whole or not at all, and every failure is an OutputError that says what the system said."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aegis import files
from aegis.errors import OutputError
from aegis.files import (
    LOCK,
    atomic_write,
    create_private_file,
    describe_denied_access,
    describe_open_files,
    folder_lock,
    is_partial_file,
    json_digest,
    make_private_folder,
    write_text,
)


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Path]:
    """A file with old content, alone in its folder before and after the test."""
    path = tmp_path / "result.txt"
    path.write_text("old")
    yield path
    assert os.listdir(tmp_path) == ["result.txt"], "nothing is left behind"


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_new_file_takes_the_place_of_the_old_one(old: Path) -> None:
    write_text(old, "new é\nline\n")
    assert old.read_bytes() == "new é\nline\n".encode()


def test_the_old_file_is_there_until_the_new_one_is_complete(old: Path) -> None:
    with atomic_write(old) as aside:
        assert aside.parent == old.parent and aside.name.endswith(".part")
        aside.write_text("half")
        assert old.read_text() == "old"
    assert old.read_text() == "half"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_an_error_inside_leaves_the_old_file(old: Path, error: BaseException) -> None:
    def interrupted() -> None:
        with atomic_write(old) as aside:
            aside.write_text("half")
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert old.read_text() == "old"


@pytest.mark.parametrize("where", ["write_text", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(old: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    owner: Any = Path if where == "write_text" else os
    monkeypatch.setattr(owner, where, full)
    with pytest.raises(OutputError, match=r"cannot write .*result.txt: No space left on device") as caught:
        write_text(old, "new")
    monkeypatch.undo()
    assert isinstance(caught.value.__cause__, OSError)
    assert old.read_text() == "old"


def test_a_disk_too_full_for_an_empty_file(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_text(old, "new")
    assert old.read_text() == "old"


def test_interrupted_as_soon_as_it_is_there_it_is_removed(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def opened(*given: Any) -> int:
        real(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(KeyboardInterrupt):
        write_text(old, "new")
    monkeypatch.undo()
    assert os.listdir(old.parent) == [old.name]


def test_a_folder_that_cannot_be_flushed_does_not_spoil_the_file(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def only_files(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "a folder")
        real(handle)

    monkeypatch.setattr(os, "fsync", only_files)
    write_text(old, "new")
    assert old.read_text() == "new"


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_text(str(tmp_path / "a" / "b" / "c.txt"), "x")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "x"


def test_a_path_below_a_file_is_refused(old: Path) -> None:
    for path in (old / "inside.txt", old / "deep" / "inside.txt"):
        with pytest.raises(OutputError, match=r"cannot write .*inside.txt: (Not a directory|File exists)"):
            write_text(path, "x")
    assert old.read_text() == "old"


def test_a_folder_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*taken: Is a directory"):
        write_text(tmp_path / "taken", "x")
    assert os.listdir(tmp_path) == ["taken"]


@pytest.mark.parametrize("ask", ["mkdir", "open"])
def test_a_folder_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    # Simulated, because permissions do not bind the superuser that tests may run as.
    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path if ask == "mkdir" else os, ask, denied)
    with pytest.raises(OutputError, match=r"cannot write .*x\.txt: Permission denied"):
        write_text(tmp_path / "x.txt", "x")


@pytest.mark.skipif(os.name != "posix", reason="permission bits are a matter of POSIX systems")
def test_files_have_the_permissions_of_ordinary_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "x.txt", "x")
        assert os.umask(0o027) == 0o027, "the mask is left as it was"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.txt").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="permission bits are a matter of POSIX systems")
def test_private_files_and_folders_are_for_their_owner(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with atomic_write(tmp_path / "a" / "b" / "x", private=True) as aside:
            assert stat.S_IMODE(aside.stat().st_mode) == 0o600
        create_private_file(tmp_path / "a" / "y")
        create_private_file(tmp_path / "nowhere" / "y")
        (tmp_path / "wide").mkdir(mode=0o755)
        (tmp_path / "wide" / "z").touch(mode=0o644)
        create_private_file(tmp_path / "wide" / "z")
        make_private_folder(tmp_path / "wide" / "in")
    finally:
        os.umask(before)
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {
        **{"a": 0o700, "a/b": 0o700, "a/b/x": 0o600, "a/y": 0o600},
        **{"wide": 0o755, "wide/z": 0o644, "wide/in": 0o700},  # what was there is left as it was
    }
    wide, none = tmp_path / "wide" / "z", tmp_path / "none"
    assert describe_open_files([tmp_path / "a" / "y", none]) is None
    text = describe_open_files([none, wide, tmp_path / "a" / "y"])
    assert text == f"open to others than the owner: {wide} (mode 0644); mend it with: chmod 600 {wide}"


def test_digests_depend_on_content_and_not_on_order() -> None:
    assert json_digest({"b": [1, 2.5], "a": None}) == json_digest({"a": None, "b": [1, 2.5]})
    assert json_digest({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    values: list[object] = [{}, [], None, 0, 0.0, "0", [1, 2], [2, 1], {"a": 1}, {"a": "1"}, float("nan"), float("inf")]
    assert len({json_digest(value) for value in values}) == len(values)


def test_files_left_aside_are_known_by_their_names(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "log.parquet") as aside:
        assert is_partial_file(aside)
    assert not is_partial_file(tmp_path / "log.parquet") and not is_partial_file(tmp_path / ".hidden")


needs_locks = pytest.mark.skipif(files.fcntl is None, reason="this system has no file locks")


@needs_locks
def test_a_folder_has_one_holder_at_a_time(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "new" / "run"):
        with (
            pytest.raises(OutputError, match=r"another process is writing into .*run; wait"),
            folder_lock(tmp_path / "new" / "run"),
        ):
            pass
        with folder_lock(tmp_path / "other"):
            pass
    with folder_lock(tmp_path / "new" / "run"):
        pass
    assert list((tmp_path / "new" / "run").iterdir()) == []


HOLDER = """
import sys, time
from aegis.files import folder_lock
with folder_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@needs_locks
def test_a_killed_holder_blocks_nobody(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match="another process"), folder_lock(tmp_path):
            pass
        holder.kill()
    assert (tmp_path / LOCK).exists()
    with folder_lock(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


@needs_locks
def test_a_lock_that_its_holder_removed_meanwhile_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking the old holder ends: what was opened is no longer the lock of the folder."""
    opened = os.open

    def slow(path: Path, *rest: int) -> int:
        handle = opened(path, *rest)
        if (tmp_path / "first").exists():
            (tmp_path / "first").unlink()
            Path(path).unlink()
        return handle

    (tmp_path / "first").touch()
    monkeypatch.setattr(os, "open", slow)
    with folder_lock(tmp_path):
        assert (tmp_path / LOCK).exists()
        with pytest.raises(OutputError), folder_lock(tmp_path):
            pass


def test_a_place_that_cannot_be_locked_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(OutputError, match="cannot write into"), folder_lock(place):
            pass


def test_without_locks_nothing_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    with folder_lock(tmp_path), folder_lock(tmp_path):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="files have modes there")
def test_a_file_of_another_account_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gate.sqlite"
    assert describe_denied_access(path) is None
    path.touch(0o600)
    Path(f"{path}-wal").touch(0o600)
    assert describe_denied_access(path) is None
    monkeypatch.setattr(files.os, "access", lambda place, _: str(place) != f"{path}-wal")
    assert describe_denied_access(path) == f"{path}-wal (mode 0600) cannot be read and written: chmod 600 {path}-wal"
    monkeypatch.setattr(files.os, "geteuid", lambda: 4_000_000)
    owner = files._account(path.stat().st_uid)
    expected = rf"{path}-wal belongs to the account {owner} \(mode 0600\), .* runs as 4000000, .*sudo -u {owner}"
    assert re.match(expected, str(describe_denied_access(path)))
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    assert str(describe_denied_access(path)).startswith(f"{path} belongs to")
    monkeypatch.setattr(files.os, "access", lambda place, _: place != tmp_path)
    assert str(describe_denied_access(path)).startswith(f"{tmp_path} belongs to the account {owner} (mode 07")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", refused)
    assert "may not look into" in str(describe_denied_access(path))


def test_a_system_without_accounts_has_nothing_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "pwd", None)
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    assert describe_denied_access(tmp_path) is None
