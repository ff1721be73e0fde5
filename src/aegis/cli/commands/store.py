"""`aegis store`: the store of a live gate: upgrade, sign, verify, export, archive, back up, restore."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import print_result
from aegis.errors import InputError, SettingError, check_choice

KEY_VARIABLE = "AEGIS_JOURNAL_KEY_FILE"
store_option = click.option(
    "--store", default="gate.sqlite", show_default=True, metavar="STORE", help="A file, or postgresql://USER@HOST/NAME."
)

archive_option = options.path_option("--archive", "FOLDER", "With the records that 'aegis store archive' has moved there.")
unsigned_option = options.repeated_option(
    "--unsigned", "GATE", "A gate that has no key, where --journal-key expects one of every gate; repeatable."
)


def key_option(text: str, **more: Any) -> options.Decorator:
    """Return the option that names the file of a journal key."""
    kind = options.NamedPath(dir_okay=False)
    return click.option("--journal-key", type=kind, envvar=KEY_VARIABLE, show_envvar=True, metavar="FILE", help=text, **more)


def load_keys(journal_key: str | None) -> Any:
    """Return the keys in a file; None without one."""
    from aegis.service import load_journal_keys

    return None if journal_key is None else load_journal_keys(journal_key)


def open_store(store: str, check: bool = True, older: bool = False) -> Any:
    """Return the database of a store, closed when the command ends; InputError if it is missing or of another release.

    older: a store that this release can upgrade will do.
    """
    options.require_extra("service", "the live gate")
    from aegis.service import Database

    database = Database.at(store)
    click.get_current_context().call_on_close(database.close)
    if check:
        if database.file is not None and not database.file.exists():
            raise InputError(f"there is no store {store}; 'aegis serve' and 'aegis store upgrade' make one")
        database.check(older)
    return database


@click.group("store")
def command() -> None:
    """Look after the store of a live gate.

    \b
    Examples:
      aegis store verify --store gate.sqlite --json
      aegis store backup --store gate.sqlite --out gate-backup.jsonl.gz
    """


@command.command("upgrade")
@store_option
@options.as_json
def upgrade_store(store: str, as_json: bool) -> None:
    """Bring the schema up to date, or make a new store. Back it up first."""
    database = open_store(store, check=False)
    before = database.version() if database.file is None or database.file.exists() else None
    database.upgrade()
    plain = {"store": database.shown, "before": before, "now": database.newest()}
    print_result(as_json, plain, f"{database.shown}: schema {before or 'none'} -> {database.newest()}")


@command.command("key")
@options.path_option("--out", "FILE", "Gets the key; it must not be there yet.", required=True)
@options.path_option("--replaces", "FILE", "The key that the new one replaces; it is copied, to check what it has signed.")
@options.as_json
def make_key(out: Path, replaces: Path | None, as_json: bool) -> None:
    """Make a key that signs journals. Keep a copy of it where the store is not."""
    options.require_extra("service", "the live gate")
    from aegis.service import make_journal_key

    keys = make_journal_key(out, replaces)
    print_result(as_json, {"key": keys.current, "file": str(out)}, f"the journal key {keys.current} is in {out}")


@command.command("rekey")
@store_option
@click.option("--name", metavar="NAME", help="Which gate.  [default: the only one]")
@key_option("Signs from now on; holds the key before it too, if there was one.", required=True)
@options.as_json
def rekey_store(store: str, name: str | None, journal_key: str, as_json: bool) -> None:
    """Let a key sign a journal that had none, or had another one. Stop the gate first.

    \b
    Example, to replace a key:
      aegis store key --out new.key --replaces old.key
      aegis store rekey --store gate.sqlite --journal-key new.key
    """
    database = open_store(store)
    from aegis.service import rekey_gate

    head = rekey_gate(database, choose_gate(database, name), load_keys(journal_key))
    print_result(as_json, {**head.plain(), "key": head.signer}, f"gate '{head.gate}' is signed by the journal key {head.signer}")


@command.command("head")
@store_option
@click.option("--name", metavar="NAME", help="Which gate.  [default: all]")
@options.as_json
def show_heads(store: str, name: str | None, as_json: bool) -> None:
    """Print the newest record of each gate, as `GATE SEQ HASH`: kept elsewhere, it shows later whether records were cut off."""
    database = open_store(store)
    from aegis.service import list_heads

    chosen = None if name is None else choose_gate(database, name)
    heads = [head for head in list_heads(database) if chosen in (None, head.gate)]
    plain = [{**head.plain(), "keyed": head.signer is not None} for head in heads]
    print_result(as_json, {"heads": plain}, *(head.text for head in heads))


@command.command("verify")
@store_option
@key_option("Checks signatures: every gate must be signed by it to its end.")
@unsigned_option
@options.repeated_option("--head", "HEAD", "`GATE SEQ HASH` that was kept elsewhere, or a file with such lines; repeatable.")
@archive_option
@options.as_json
def verify_store(
    store: str,
    journal_key: str | None,
    unsigned: tuple[str, ...],
    head: tuple[str, ...],
    archive: Path | None,
    as_json: bool,
) -> None:
    """Check that nothing was altered or removed, and say what was checked and what was not.

    \b
    Examples:
      aegis store verify --store gate.sqlite
      aegis store verify --store gate.sqlite --journal-key journal.key --head heads.txt
    """
    database = open_store(store)
    from aegis.service import check_snapshots, check_store

    keys = load_keys(journal_key)
    checks = check_store(database, keys, read_heads(head), unsigned, archive)
    plain: list[dict[str, Any]] = []
    for item in checks:
        compared, other = check_snapshots(database, item.gate, None if item.gate in unsigned else keys, archive)
        held = [f"each of {compared} snapshots holds what the records before it add up to"] if compared else []
        held += ["stored snapshots have the content that the journal notes"] if compared or other else []
        more = [f"{other} snapshots of another release or format, or before the records that were read"] if other else []
        plain.append(
            {
                **{"gate": item.gate, "records": item.records, "challengers": item.challengers, "snapshots": compared},
                **{"head": item.head.plain(), "key": item.head.signer, "signed_from": item.signed_from, "after": item.after},
                "checked": [*item.checked, *held],
                "not_checked": [*item.unchecked, *more],
            }
        )
    lines = [
        line
        for row in plain
        for line in (
            f"gate '{row['gate']}': {row['records']} records, {row['challengers']} challengers",
            *(f"  checked: {text}" for text in row["checked"]),
            *(f"  not checked: {text}" for text in row["not_checked"]),
        )
    ]
    print_result(as_json, {"gates": plain}, *(lines or ["the store holds no gate yet"]))


def read_heads(words: tuple[str, ...]) -> list[Any]:
    """Return the heads in words, each of which is a head or a file with heads; InputError if one is neither."""
    from aegis.service import parse_heads

    heads = []
    for word in words:
        is_file = os.path.exists(word)  # False, and no error, also for a word that no path can be
        try:
            heads += parse_heads(Path(word).read_text(encoding="utf-8") if is_file else word)
        except (OSError, ValueError, InputError) as error:
            why = error if is_file else "there is no such file, and it is no head: expected a file, or 'GATE SEQ HASH'"
            raise InputError(f"--head {word}: {why}") from error
    return heads


@command.command("export")
@store_option
@click.option("--name", metavar="NAME", help="Which gate.  [default: the only one]")
@options.path_option("--out", "FOLDER", "Gets the log and the challenges.", required=True)
@key_option("Checks signatures of the journal.")
@archive_option
@options.as_json
def export_store(store: str, name: str | None, out: Path, journal_key: str | None, archive: Path | None, as_json: bool) -> None:
    """Write what a gate has counted as a log, with its problem file and the challenges that it put in control.

    \b
    Example, after the export:
      aegis certify out/log.parquet --problem out/problem.yaml --policy out/challenges/1-dose-3
    """
    database = open_store(store)
    from aegis.service import export_gate

    export = export_gate(database, choose_gate(database, name), out, load_keys(journal_key), archive)
    again = ["aegis", "certify", f"{out}/log.parquet", "--problem", f"{out}/problem.yaml", "--policy"]
    folders = [(item["level"], f"{out}/{item['folder']}") for item in export["certificates"]]
    certificates = [f"  level '{level}': {shlex.join([*again, folder])}" for level, folder in folders]  # as a shell reads it
    left = f"not in it: episodes that were opened in records 1 to {export.get('discarded')}, of which some were discarded"
    print_result(
        as_json, export, f"{export['episodes']} episodes in {out}", *certificates, *([left] if "discarded" in export else [])
    )


@command.command("archive")
@store_option
@click.option("--gate", "--name", "name", metavar="NAME", help="Which gate.  [default: the only one]")
@click.option("--before", metavar="DATE", help="Records before it go, such as 2026-01-31; UTC unless it has a zone.")
@click.option("--keep-days", type=click.IntRange(min=0), metavar="N", help="Records that are older than this go.")
@options.path_option("--out", "FOLDER", "Gets the records, and the episodes as a log.")
@click.option("--discard", is_flag=True, help="Remove the records without an archive, for good.")
@key_option("Checks signatures of the journal, and signs the record that notes the archive.")
@options.as_json
def archive_store(
    store: str,
    name: str | None,
    before: str | None,
    keep_days: int | None,
    out: Path | None,
    discard: bool,
    journal_key: str | None,
    as_json: bool,
) -> None:
    """Move old records of counted episodes out of a store. Stop the gate first.

    \b
    Examples:
      aegis store archive --store gate.sqlite --keep-days 90 --out archive
      aegis store archive --store gate.sqlite --before 2026-01-31 --discard
    """
    if out is None and not discard:
        raise SettingError("say where the records go: --out FOLDER for an archive, or --discard to remove them for good")
    if out is not None and discard:
        raise SettingError(
            "--out and --discard were both given: --out keeps the records in an archive, --discard removes them for good"
        )
    limit = _limit(before, keep_days)
    database = open_store(store)
    from aegis.service import archive_gate

    done = archive_gate(database, choose_gate(database, name), limit, out, load_keys(journal_key))
    where = "removed for good" if done.folder is None else f"in {done.folder}"
    text = f"gate '{done.gate}': records {done.first} to {done.last} of {done.episodes} episodes are {where}"
    waits = f"later records stay: episode '{done.waits_for}' is not counted yet"
    lines = [text if done.records else f"gate '{done.gate}': there is nothing to archive before {limit.isoformat()}"]
    print_result(as_json, done.plain(), *lines, *([waits] if done.waits_for else []))


def _limit(before: str | None, keep_days: int | None) -> datetime:
    """Return the time before which records are archived."""
    if before is not None and keep_days is not None:
        raise SettingError("--before and --keep-days were both given: each names the time before which records go; give one")
    if before is None and keep_days is None:
        raise SettingError("say which records go: --before DATE or --keep-days N")
    if before is None:
        return datetime.now(UTC) - timedelta(days=keep_days or 0)
    try:
        limit = datetime.fromisoformat(before)
    except ValueError as error:
        raise SettingError(f"--before {before}: expected a date such as 2026-01-31, or 2026-01-31T06:00:00+01:00") from error
    return limit if limit.tzinfo is not None else limit.replace(tzinfo=UTC)


def choose_gate(database: Any, name: str | None) -> str:
    """Return the gate that is meant: the one that is named, or the only one."""
    from aegis.service import list_gates

    gates = list_gates(database)
    if name is not None:
        check_choice(name, gates, "gate")
        return name
    if len(gates) != 1:
        raise SettingError(f"the store holds {len(gates)} gates ({', '.join(gates) or 'none'}): name one with --name")
    return gates[0]


@command.command("backup")
@store_option
@options.path_option("--out", "FILE", "Such as gate-backup.jsonl.gz.", required=True)
@options.as_json
def backup_store(store: str, out: Path, as_json: bool) -> None:
    """Write everything in a store into one file; the gate may go on meanwhile. The head of each gate is printed, to be kept.

    A store of an older release is backed up as it is, before 'aegis store upgrade'.
    """
    database = open_store(store, older=True)
    from aegis.service import write_backup

    backup = write_backup(database, out)
    plain = {"rows": backup.rows, "file": str(out), "heads": [head.plain() for head in backup.heads]}
    print_result(as_json, plain, f"{backup.rows} rows in {out}", *(head.text for head in backup.heads))


@command.command("restore")
@store_option
@click.argument("file", type=options.NamedPath(path_type=Path, exists=True))
@key_option("Checks signatures: every gate must be signed by it to its end.")
@unsigned_option
@options.as_json
def restore_store(store: str, file: Path, journal_key: str | None, unsigned: tuple[str, ...], as_json: bool) -> None:
    """Fill a new store from a backup; also the way from SQLite to PostgreSQL and back."""
    database = open_store(store, check=False)
    from aegis.service import restore_backup

    backup = restore_backup(database, file, load_keys(journal_key), unsigned)
    plain = {"rows": backup.rows, "store": database.shown, "heads": [head.plain() for head in backup.heads]}
    plain |= {"archived": dict(backup.archived)}
    text = f"{backup.rows} rows restored into {database.shown}; every chain is whole, every challenger as frozen"
    gates = [
        f"gate '{head.gate}': {head.seq} records, {'no key' if head.signer is None else f'signed by the key {head.signer}'}"
        for head in backup.heads
    ]
    archived = [
        f"not checked: records 1 to {last} of gate '{gate}', which are not in the store, and the challengers that they froze"
        for gate, last in backup.archived.items()
    ]
    print_result(as_json, plain, text, *gates, *archived)
