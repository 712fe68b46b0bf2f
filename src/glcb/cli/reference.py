"""The command line reference as Markdown, generated from the commands themselves."""

from collections.abc import Iterator, Sequence

import typer.main
from typer.core import TyperArgument, TyperGroup, TyperOption

_Parameter = TyperArgument | TyperOption


def markdown() -> str:
    """Return a reference of all commands, with their arguments, options, defaults and help texts.

    Returns
    -------
    str
        Markdown with one section per command, in the order of ``glcb --help``.

    Examples
    --------
    >>> print(markdown().splitlines()[0])
    ## glcb
    """
    from glcb.cli import app

    command = typer.main.get_command(app)
    return "\n".join(_sections(typer.Context(command, info_name="glcb"))).strip() + "\n"


def _sections(context: typer.Context) -> Iterator[str]:
    """Yield the section of one command, then the sections of its subcommands."""
    command, path = context.command, context.command_path
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    options = [each for each in command.params if isinstance(each, TyperOption)]
    children = [
        typer.Context(child, parent=context, info_name=name)
        for name, child in (command.commands.items() if isinstance(command, TyperGroup) else ())
    ]
    usage = [path, *(_name(argument) for argument in arguments)]
    usage += ["[OPTIONS]"] * bool(options) + ["COMMAND"] * bool(children)
    yield f"## {path}\n"
    yield f"    {' '.join(usage)}\n"
    if command.help:
        yield f"{_paragraphs(command.help)}\n"
    yield from _table("argument", arguments, context)
    yield from _table("option", options, context)
    if children:
        yield "| command | description |\n|:--|:--|"
        for child in children:
            anchor = child.command_path.replace(" ", "-")
            summary = _paragraphs(child.command.help or "").partition("\n")[0]
            yield f"| [`{child.command_path}`](#{anchor}) | {summary} |"
        yield ""
    for child in children:
        yield from _sections(child)


def _table(kind: str, parameters: Sequence[_Parameter], context: typer.Context) -> Iterator[str]:
    if not parameters:
        return
    yield f"| {kind} | description | default |\n|:--|:--|:--|"
    for parameter in parameters:
        text = (parameter.help or "").replace("|", r"\|")
        yield f"| `{_name(parameter)}` | {text} | {_default(parameter, context)} |"
    yield ""


def _name(parameter: _Parameter) -> str:
    placeholder = parameter.metavar or str(parameter.name).upper()
    if isinstance(parameter, TyperArgument):
        return (placeholder if parameter.required else f"[{placeholder}]") + "..." * (parameter.nargs < 0)
    flags = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return flags if parameter.is_flag else f"{flags} {placeholder}"


def _default(parameter: _Parameter, context: typer.Context) -> str:
    if isinstance(parameter.show_default, str):  # describes a default that is computed at run time
        return parameter.show_default
    if parameter.required:
        return "required"
    default = parameter.get_default(context)
    if getattr(parameter, "is_flag", False) or default in (None, "", [], ()):
        return ""
    return f"`{default}`"


def _paragraphs(text: str) -> str:
    """Remove the line breaks within paragraphs."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
