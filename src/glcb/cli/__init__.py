"""The command line interface: one module per command, which parses, calls and prints.

Commands import their dependencies when they run, so that ``glcb --help`` starts quickly.
"""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from glcb._errors import GlcbError
from glcb._version import __version__
from glcb.cli import (
    audit,
    bench,
    data,
    demo,
    evaluate,
    keys,
    learn,
    policies,
    report,
    serve,
    study,
    tasks,
    warm,
    workers,
)

app = typer.Typer(
    help="Contextual bandits that learn online.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(learn.learn)
app.command()(evaluate.evaluate)
app.command()(evaluate.convert)
app.command()(policies.policies)
app.add_typer(tasks.app, name="tasks")
app.add_typer(data.app, name="data")
app.command()(bench.bench)
app.command()(report.report)
app.command()(study.study)
app.command()(serve.serve)
app.add_typer(keys.app, name="keys")
app.add_typer(workers.app, name="workers")
app.command()(audit.audit)
app.command()(warm.warm)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"glcb {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line interface; print errors of glcb as one line, without a traceback."""
    try:
        app()
    except GlcbError as error:
        Console(stderr=True).print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        sys.exit(130)
