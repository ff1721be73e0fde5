"""`aegis store`: the store of a live gate: upgrade, verify, export, back up, restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import print_result
from aegis.errors import InputError, SettingError, check_choice

store_option = click.option(
    "--store", default="gate.sqlite", show_default=True, metavar="STORE", help="A file, or postgresql://USER@HOST/NAME."
)


def open_store(store: str, check: bool = True) -> Any:
    """Return the database of a store, closed when the command ends; InputError if it is missing or of another release."""
    options.require_extra("service", "the live gate")
    from aegis.service import Database

    database = Database.at(store)
    click.get_current_context().call_on_close(database.close)
    if check:
        if database.file is not None and not database.file.exists():
            raise InputError(f"there is no store {store}; 'aegis serve' and 'aegis store upgrade' make one")
        database.check()
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


@command.command("verify")
@store_option
@options.as_json
def verify_store(store: str, as_json: bool) -> None:
    """Check that nothing was altered or removed: every record has the hash of the one before it, every challenger is the one that
    was frozen, and every snapshot holds what the records before it add up to.
    """
    database = open_store(store)
    from aegis.service import check_gate, check_snapshots, list_gates

    rows = []
    for gate in list_gates(database):
        records, challengers = check_gate(database, gate)
        compared, other = check_snapshots(database, gate)
        rows.append(
            {"gate": gate, "records": records, "challengers": challengers, "snapshots": compared, "other_snapshots": other}
        )
    print_result(as_json, {"gates": rows}, *map(_verified, rows), *([] if rows else ["the store holds no gate yet"]))


def _verified(row: dict[str, Any]) -> str:
    """Return what was checked of a gate in words."""
    other = f" ({row['other_snapshots']} of another release not compared)" if row["other_snapshots"] else ""
    return (
        f"gate '{row['gate']}': {row['records']} records, the chain is whole; {row['challengers']} challengers, as frozen; "
        f"{row['snapshots']} snapshots, as the journal adds up{other}"
    )


@command.command("export")
@store_option
@click.option("--name", metavar="NAME", help="Which gate.  [default: the only one]")
@options.path_option("--out", "FOLDER", "Gets the log and the challenges.", required=True)
@options.as_json
def export_store(store: str, name: str | None, out: Path, as_json: bool) -> None:
    """Write what a gate has counted as a log, with its problem file and the challenges that it put in control.

    \b
    Example, after the export:
      aegis certify out/log.parquet --problem out/problem.yaml --policy out/challenges/1-dose-3
    """
    database = open_store(store)
    from aegis.service import export_gate

    export = export_gate(database, choose_gate(database, name), out)
    again = f"aegis certify {out}/log.parquet --problem {out}/problem.yaml --policy {out}"
    certificates = [f"  level '{item['level']}': {again}/{item['folder']}" for item in export["certificates"]]
    print_result(as_json, export, f"{export['episodes']} episodes in {out}", *certificates)


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
    """Write everything in a store into one file; the gate may go on meanwhile."""
    database = open_store(store)
    from aegis.service import write_backup

    rows = write_backup(database, out)
    print_result(as_json, {"rows": rows, "file": str(out)}, f"{rows} rows in {out}")


@command.command("restore")
@store_option
@click.argument("file", type=options.NamedPath(path_type=Path, exists=True))
@options.as_json
def restore_store(store: str, file: Path, as_json: bool) -> None:
    """Fill a new store from a backup; also the way from SQLite to PostgreSQL and back."""
    database = open_store(store, check=False)
    from aegis.service import restore_backup

    rows = restore_backup(database, file)
    text = f"{rows} rows restored into {database.shown}; every chain is whole, every challenger as frozen"
    print_result(as_json, {"rows": rows, "store": database.shown}, text)
