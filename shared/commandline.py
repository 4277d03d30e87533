"""How a command line is run: what is wrong with it is told in one line, exit code 2."""

import sys

import typer

from shared.runtime.lifecycle import EXIT_DONE, EXIT_FAULT, EXIT_USAGE


def new_app(purpose: str) -> typer.Typer:
    """A group of commands, with plain help: operators read it in logs and over slow lines."""
    return typer.Typer(
        help=purpose, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )


def run_app(app: typer.Typer, name: str) -> None:
    """Run `app` as `python -m name` and exit."""
    try:
        code = app(prog_name=f"python -m {name}", standalone_mode=False)
    except typer.TyperException as error:
        text = getattr(error, "format_message", error.__str__)()  # names the option, where the error has one
        where = getattr(getattr(error, "ctx", None), "command_path", f"python -m {name}")
        print(f"punktlig: {text} (see {where} --help)", file=sys.stderr)  # noqa: T201 - a person reads it
        sys.exit(EXIT_USAGE)
    except typer.Abort:
        sys.exit(EXIT_FAULT)
    sys.exit(code if isinstance(code, int) else EXIT_DONE)
