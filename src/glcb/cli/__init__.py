"""The command line: parses, calls, prints. What it calls is imported only when it is called."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from glcb._errors import GlcbError
from glcb._version import __version__
from glcb.cli import bench, data, demo, keys, learn, policies, report, serve, study, tasks, verify

app = typer.Typer(
    help="Contextual bandits that learn online.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(policies.policies)
app.command()(bench.bench)
app.command()(report.report)
app.command()(study.study)
app.command()(learn.learn)
app.command()(serve.serve)
app.command()(verify.verify)
app.add_typer(keys.app, name="keys")
app.add_typer(data.app, name="data")
app.add_typer(tasks.app, name="tasks")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glcb {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; errors of ours are one line, not a traceback."""
    try:
        app()
    except GlcbError as error:
        Console(stderr=True).print(Text.assemble(("error: ", "bold red"), str(error)))
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        sys.exit(130)
