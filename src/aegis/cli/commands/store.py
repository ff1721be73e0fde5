"""`aegis store`: the store of a live gate: upgrade, verify, export, back up, restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.output import console, print_json, print_line
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
def upgrade_store(store: str, as_json: bool) -> int:
    """Bring the schema up to date, or make a new store. Back it up first."""
    database = open_store(store, check=False)
    before = database.version() if database.file is None or database.file.exists() else None
    database.upgrade()
    if as_json:
        print_json({"store": database.shown, "before": before, "now": database.newest()})
    else:
        console().print(f"{database.shown}: schema {before or 'none'} -> {database.newest()}")
    return 0


@command.command("verify")
@store_option
@options.as_json
def verify_store(store: str, as_json: bool) -> int:
    """Check that nothing was altered or removed: every record has the hash of the one before it, and every challenger is the one
    that was frozen.
    """
    database = open_store(store)
    from aegis.service import check_gate, list_gates

    gates = []
    for gate in list_gates(database):
        records, challengers = check_gate(database, gate)
        gates.append({"gate": gate, "records": records, "challengers": challengers})
    if as_json:
        print_json({"gates": gates})
        return 0
    for item in gates:
        chain = f"{item['records']} records, the chain is whole"
        print_line(f"gate '{item['gate']}': {chain}; {item['challengers']} challengers, as frozen")
    if not gates:
        print_line("the store holds no gate yet")
    return 0


@command.command("export")
@store_option
@click.option("--name", metavar="NAME", help="Which gate.  [default: the only one]")
@options.path_option("--out", "FOLDER", "Gets the log and the challenges.", required=True)
@options.as_json
def export_store(store: str, name: str | None, out: Path, as_json: bool) -> int:
    """Write what a gate has counted as a log, with its problem file and the challenges that it put in control.

    \b
    Example, after the export:
      aegis certify out/log.parquet --problem out/problem.yaml --policy out/challenges/1-dose-3
    """
    database = open_store(store)
    from aegis.service import export_gate

    export = export_gate(database, choose_gate(database, name), out)
    if as_json:
        print_json(export)
        return 0
    console().print(f"{export['episodes']} episodes in {out}")
    for item in export["certificates"]:
        again = f"aegis certify {out}/log.parquet --problem {out}/problem.yaml --policy {out}/{item['folder']}"
        print_line(f"  level '{item['level']}': {again}")
    return 0


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
def backup_store(store: str, out: Path, as_json: bool) -> int:
    """Write everything in a store into one file; the gate may go on meanwhile."""
    database = open_store(store)
    from aegis.service import write_backup

    rows = write_backup(database, out)
    if as_json:
        print_json({"rows": rows, "file": str(out)})
    else:
        console().print(f"{rows} rows in {out}")
    return 0


@command.command("restore")
@store_option
@click.argument("file", type=options.NamedPath(path_type=Path, exists=True))
@options.as_json
def restore_store(store: str, file: Path, as_json: bool) -> int:
    """Fill a new store from a backup; also the way from SQLite to PostgreSQL and back."""
    database = open_store(store, check=False)
    from aegis.service import restore_backup

    rows = restore_backup(database, file)
    if as_json:
        print_json({"rows": rows, "store": database.shown})
    else:
        console().print(f"{rows} rows restored into {database.shown}; every chain is whole, every challenger as frozen")
    return 0
