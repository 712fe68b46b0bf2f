"""``glcb policies``: who can play."""


def policies() -> None:
    """List the policies, what each does and where it comes from."""
    from rich.console import Console
    from rich.table import Table

    from glcb.policies import registry

    table = Table("policy", "what it does", "data", box=None, padding=(0, 2, 0, 0))
    for name in registry.names():
        entry = registry.get(name)
        kept = "stores all" if entry.make.stores_data else "stores none"
        table.add_row(name, f"{entry.line} ({entry.source})", kept)
    Console().print(table)
