"""Our docstrings as Markdown: examples and trees become blocks, roles such as ``:meth:`` plain code."""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:meth|class|func|attr|mod):`~?\.?([^`]+)`")
_VERBATIM = re.compile(
    r"((?:^>>> .*\n?(?:.+\n?)*)+|(?:^\w+\n)?(?:^[├│└].*\n?)+|``.+?``|`[^`\n]+`)", re.MULTILINE
)


class Readable(griffe.Extension):
    """Rewrites every docstring before it is shown."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **_: Any) -> None:
        """Rewrite the docstring of a class, a function, an attribute or a module."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """Return a docstring as Markdown.

    >>> markdown("A number within [0, 1], see :meth:`decide`.")
    'A number within \\\\[0, 1], see `decide`.'
    >>> markdown("Adds.\\n\\n>>> 1 + 1\\n2")
    'Adds.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n'
    """
    parts = _VERBATIM.split(_ROLE.sub(r"`\1`", text))
    parts[::2] = [prose.replace("[", r"\[") for prose in parts[::2]]
    parts[1::2] = [_block(part) for part in parts[1::2]]
    return "".join(parts)


def _block(part: str) -> str:
    if part.startswith("`"):
        return part
    return f"```{'pycon' if part.startswith('>>>') else 'text'}\n{part.rstrip()}\n```\n"
