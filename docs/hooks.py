"""Pages of the site that mkdocs.yml does not name: further how-tos, example notebooks with their outputs, and configurations."""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

# Notebooks without a page of the same name.
NOTEBOOKS = ("quickstart", "judged_documents")


def on_config(config: Any) -> Any:
    """Called by mkdocs when it has read its settings. Pages that the navigation does not name become how-tos."""
    named = json.dumps(config.nav)
    section = next(entry["How to"] for entry in config.nav if "How to" in entry)
    section += [page.name for page in sorted(Path(config.docs_dir).glob("*.md")) if f'"{page.name}"' not in named]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Called by mkdocs when it knows its files."""
    for name in NOTEBOOKS:
        notebook = json.loads(Path(config.docs_dir, f"{name}.ipynb").read_text(encoding="utf-8"))
        files.append(File.generated(config, f"{name}.md", content=page(notebook, f"{name}.ipynb")))
    files.append(
        File.generated(config, "configuration.md", content=configurations(Path(config.docs_dir).parent / "conf"))
    )
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page. It fixes links that work in the repository and would not work on the site.

    Links to notebooks lead to their pages, and those to example configurations to their sections. Links to other files outside docs/ become
    plain text.
    """
    if page.file.src_uri.removesuffix(".md") in NOTEBOOKS:
        return markdown
    markdown = re.sub(r"\]\(\.\./conf/(\w+)\.toml\)", r"](configuration.md#conf\1toml)", markdown)
    markdown = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)
    return re.sub(rf"\(({'|'.join(NOTEBOOKS)})\.ipynb\)", r"(\1.md)", markdown)


def configurations(folder: Path) -> str:
    """All example configurations as one page of Markdown."""
    title = "# Configuration files\n\nCopy an example and change it. Each lists every key of [a job](jobs.md) with its default.\n"
    files = sorted(folder.glob("*.toml"))
    return title + "".join(
        f"\n## conf/{file.name}\n\n```toml\n{file.read_text(encoding='utf-8')}```\n" for file in files
    )


def page(notebook: dict[str, Any], file: str) -> str:
    """A notebook as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] if (shown := _output(output))]
    title, *others = parts
    download = f"This page is [a notebook]({file}) that was run."
    return "\n\n".join([title, download, *others]) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    text = {kind: "".join(lines) for kind, lines in data.items()}
    if "image/svg+xml" in text:
        svg = text["image/svg+xml"]
        said = re.search(r'aria-label="([^"]*)"', svg)
        address = base64.b64encode(svg.encode()).decode()
        alt = html.escape(html.unescape(said[1])) if said else "chart"
        return f'<div class="output"><img alt="{alt}" src="data:image/svg+xml;base64,{address}"></div>'
    if "text/html" in text:
        bare = re.sub(r"<style.*?</style>| border=\"1\" class=\"dataframe\"", "", text["text/html"], flags=re.DOTALL)
        lines = filter(None, map(str.strip, bare.splitlines()))
        return f'<div class="output">{" ".join(lines)}</div>'
    return f"```text\n{(text.get('text/plain') or ''.join(output.get('text', ''))).rstrip()}\n```"
