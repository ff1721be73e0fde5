"""Keys of a journal: made once, readable by their owner alone, and never shown."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from aegis.errors import OutputError, SettingError
from aegis.service.store.journal_keys import JournalKeys, key_id, load_journal_keys, make_journal_key


def test_a_key_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "journal.key"
    keys = make_journal_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert len(bytes.fromhex(text)) == 32
    assert load_journal_keys(path) == keys
    with pytest.raises(SettingError, match="never overwritten"):
        make_journal_key(path)
    assert path.read_text() == text
    with pytest.raises(OutputError, match="cannot write"):
        make_journal_key(tmp_path / "no" / "journal.key")
    assert make_journal_key(tmp_path / "other.key").current != keys.current


def test_the_id_is_a_fingerprint_and_the_key_is_not_shown(tmp_path: Path) -> None:
    keys = make_journal_key(tmp_path / "journal.key")
    (secret,) = keys.secrets
    assert keys.current == key_id(secret) == sha256(b"aegis journal key id" + secret).hexdigest()[:16]
    assert secret.hex() not in repr(keys) and repr(secret) not in repr(keys)
    assert (keys.secret(keys.current), keys.secret("0" * 16)) == (secret, None)


def test_a_new_key_keeps_those_that_it_replaces(tmp_path: Path) -> None:
    old = make_journal_key(tmp_path / "old.key")
    new = make_journal_key(tmp_path / "new.key", tmp_path / "old.key")
    assert new.secrets[1:] == old.secrets and new.current != old.current
    assert new.secret(old.current) == old.secrets[0]
    assert load_journal_keys(tmp_path / "new.key") == new


@pytest.mark.skipif(os.name != "posix", reason="modes of files are another matter there")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666, 0o644])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "journal.key"
    make_journal_key(path)
    path.chmod(mode)
    with pytest.raises(SettingError, match=f"mode {mode:04o}.*chmod 600"):
        load_journal_keys(path)
    path.chmod(0o400)
    assert isinstance(load_journal_keys(path), JournalKeys)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are another matter there")
def test_a_credential_of_systemd_may_be_readable_by_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, outside = tmp_path / "credentials", tmp_path / "journal.key"
    folder.mkdir()
    inside = folder / "journal.key"
    keys, _ = make_journal_key(inside), make_journal_key(outside)
    inside.chmod(0o440)
    with pytest.raises(SettingError, match="chmod 600"):
        load_journal_keys(inside)  # without systemd it is a file like any other
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    for mode in (0o440, 0o400):
        inside.chmod(mode)
        assert load_journal_keys(inside) == keys
    for mode in (0o444, 0o460, 0o404):
        inside.chmod(mode)
        with pytest.raises(SettingError, match=f"mode {mode:04o}"):
            load_journal_keys(inside)
    outside.chmod(0o440)
    (folder / "link.key").symlink_to(outside)
    for path in (outside, folder / "link.key", folder / ".." / "journal.key"):
        with pytest.raises(SettingError, match="mode 0440"):
            load_journal_keys(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"ab" * 31, b"ab" * 33, b"zz" * 32, b"\xff" * 64, b"ab" * 32 + b"\nab"])
def test_what_is_no_key_is_refused_without_its_content(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SettingError, match="no journal key") as error:
        load_journal_keys(path)
    assert "abab" not in str(error.value)


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none\.key"):
        load_journal_keys(tmp_path / "none.key")
    with pytest.raises(SettingError):
        load_journal_keys(tmp_path)
