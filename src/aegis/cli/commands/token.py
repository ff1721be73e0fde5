"""`aegis token`: who may ask a live gate for decisions, read it, or operate it."""

from __future__ import annotations

from dataclasses import asdict

import click

from aegis.cli import options
from aegis.cli.commands.store import open_store, store_option
from aegis.cli.output import print_line, print_result


@click.group("token")
def command() -> None:
    """Make, list and revoke the tokens of a live gate.

    \b
    Examples:
      aegis token make reactor-7 --role controller --store gate.sqlite
      aegis token list --store gate.sqlite --json
    """


@command.command("make")
@click.argument("name")
@click.option("--role", required=True, metavar="ROLE", help="controller (asks and reports), viewer (reads) or operator.")
@store_option
@options.as_json
def make_token_command(name: str, role: str, store: str, as_json: bool) -> None:
    """Make a token and show it, once: only its hash is kept."""
    database = open_store(store, check=False)
    new = not database.file.exists() if database.file is not None else database.version() is None
    database.upgrade()
    from aegis.service import make_token

    if new:  # a path that was mistyped makes one, too
        print_line(f"made a new store {database.file or database.shown}", to_stderr=True)
    secret = make_token(database, name, role)
    print_result(as_json, {"name": name, "role": role, "token": secret}, secret)
    if not as_json:
        print_line(f"The token of '{name}' ({role}). It is not shown again.", to_stderr=True)


@command.command("list")
@store_option
@options.as_json
def list_tokens_command(store: str, as_json: bool) -> None:
    """List all tokens, without their secrets."""
    database = open_store(store)
    from aegis.service import list_tokens

    tokens = list_tokens(database)
    # Earlier releases took names that a terminal must not show as they are.
    shown = {t.name: t.name if t.name.isprintable() else repr(t.name) for t in tokens}
    lines = [f"{shown[t.name]}: {t.role}, made {t.made}{'' if t.revoked is None else f', revoked {t.revoked}'}" for t in tokens]
    open_to_all = "no tokens: the gate listens on this machine only, and lets everybody on it do everything"
    print_result(as_json, {"tokens": [asdict(token) for token in tokens]}, *(lines or [open_to_all]))


@command.command("revoke")
@click.argument("name")
@store_option
@options.as_json
def revoke_token_command(name: str, store: str, as_json: bool) -> None:
    """Make a token worthless, within seconds."""
    database = open_store(store)
    from aegis.service import revoke_token

    revoke_token(database, name)
    print_result(as_json, {"revoked": name}, f"the token '{name}' is revoked")
