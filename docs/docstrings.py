"""A Griffe extension that makes docstrings valid Markdown: roles such as ``:meth:`` become plain code."""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:meth|class|func|attr|mod|exc):`~?\.?([^`]+)`")
_VERBATIM = re.compile(
    r"((?:^ *>>> .*\n?(?:.+\n?)*)+|(?:^\w+\n)?(?:^ *[├│└].*\n?)+|``.+?``|`[^`\n]+`)", re.MULTILINE
)


class Readable(griffe.Extension):
    """Rewrite every docstring before it is rendered."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **_: Any) -> None:
        """Rewrite the docstring of a class, function, attribute or module."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """Return a docstring as Markdown.

    >>> markdown("A number in [0, 1], see :meth:`decide`.")
    'A number in \\\\[0, 1], see `decide`.'
    >>> markdown("Adds.\\n\\n>>> 1 + 1\\n2")
    'Adds.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n'
    >>> markdown("The tree:\\n\\nA\\n├── B")
    'The tree:\\n\\n```text\\nA\\n├── B\\n```\\n'
    """
    parts = _VERBATIM.split(_ROLE.sub(r"`\1`", text))
    parts[::2] = [prose.replace("[", r"\[") for prose in parts[::2]]
    parts[1::2] = [_block(part) for part in parts[1::2]]
    return "".join(parts)


def _block(part: str) -> str:
    """Return inline code as it is, and examples and trees as code blocks."""
    if part.startswith("`"):
        return part
    return f"```{'pycon' if part.lstrip().startswith('>>>') else 'text'}\n{part.rstrip()}\n```\n"
