"""`aegis completion`: the script with which a shell completes commands, options and files."""

from __future__ import annotations

import click

from aegis.cli import options

SHELLS = {  # shell -> the line that turns completion on, and the file to put it into
    "bash": {"line": 'eval "$(aegis completion bash)"', "file": "~/.bashrc"},
    "zsh": {"line": 'eval "$(aegis completion zsh)"', "file": "~/.zshrc, below compinit"},
    "fish": {"line": "aegis completion fish | source", "file": "~/.config/fish/config.fish"},
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SHELLS)), required=False)
@options.as_json
def command(shell: str | None, as_json: bool) -> None:
    """Print the script that lets SHELL complete aegis: commands, options and files. Without SHELL: what to put where.

    \b
    Put this line into the file your shell reads at its start, and open a new terminal:
      bash   eval "$(aegis completion bash)"     into ~/.bashrc
      zsh    eval "$(aegis completion zsh)"      into ~/.zshrc, below compinit
      fish   aegis completion fish | source      into ~/.config/fish/config.fish

    \b
    Examples:
      aegis completion
      aegis completion bash
    """
    if as_json:
        from aegis.cli.output import print_json

        print_json(SHELLS if shell is None else {"shell": shell, **SHELLS[shell], "script": completion_script(shell)})
    elif shell is None:
        for name, how in SHELLS.items():
            click.echo(f"{name:<5} put this line into {how['file']}:\n      {how['line']}")
    else:
        click.echo("# Put this line into {file}, and open a new terminal:\n#   {line}".format(**SHELLS[shell]))
        click.echo(completion_script(shell))


def completion_script(shell: str) -> str:
    """Return the script that a shell reads; click writes it, and answers what it asks."""
    from click.shell_completion import get_completion_class

    from aegis.cli import app

    kind = get_completion_class(shell)
    return "" if kind is None else kind(app, {}, "aegis", "_AEGIS_COMPLETE").source()
