"""MkDocs hooks: a page for each notebook, with the outputs that are stored in it."""

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_LINK = re.compile(r"(\]\([^)\s#]+)\.ipynb([)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and figures of all notebooks. The notebooks themselves remain, for download."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = notebook.src_uri.removesuffix(".ipynb") + ".md"
        text, figures = convert(Path(str(notebook.abs_src_path)))
        files.append(File.generated(config, page, content=text))
        for name, content in figures.items():
            folder = page.rpartition("/")[0]
            files.append(File.generated(config, f"{folder}/{name}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks lead to their pages."""
    return _LINK.sub(r"\1.md\2", markdown)


def convert(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its figures by name."""
    blocks: list[str] = []
    figures: dict[str, bytes] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = _text(cell["source"])
        blocks.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                name = f"{path.stem}-{len(figures) + 1}.png"
                figures[name] = base64.b64decode(_text(data["image/png"]))
                blocks.append(f"![Figure {len(figures)}]({name})")
            elif "text/html" in data:
                blocks.append(_text(data["text/html"]).replace("\n", " "))
            else:
                blocks.append(f"```text\n{_text(data['text/plain']).rstrip()}\n```")
    blocks.insert(1, f'<a href="{path.name}" download>Download this notebook</a>')
    return "\n\n".join(blocks) + "\n", figures


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
