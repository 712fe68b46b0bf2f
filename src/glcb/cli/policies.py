"""``glcb policies``: list the policies."""

from typing import Annotated

import typer


def policies(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the policies with description and source, and whether they store data."""
    from glcb.policies import registry

    entries = {name: registry.get(name) for name in registry.names()}
    if json:
        from json import dumps

        rows = [
            {
                "name": name,
                "description": entry.summary,
                "source": entry.source,
                "stores_data": entry.policy_class.stores_data,
            }
            for name, entry in entries.items()
        ]
        typer.echo(dumps(rows, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("policy", "description", "data", box=None, padding=(0, 2, 0, 0))
    for name, entry in entries.items():
        stored = "stores all" if entry.policy_class.stores_data else "stores none"
        table.add_row(name, f"{entry.summary} ({entry.source})", stored)
    Console().print(table)
