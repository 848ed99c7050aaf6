"""Pages of the site that mkdocs.yml does not name: further how-tos and configurations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_config(config: Any) -> Any:
    """Called by mkdocs when it has read its settings. Pages that the navigation does not name become how-tos."""
    named = json.dumps(config.nav)
    section = next(entry["How to"] for entry in config.nav if "How to" in entry)
    section += [page.name for page in sorted(Path(config.docs_dir).glob("*.md")) if f'"{page.name}"' not in named]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Called by mkdocs when it knows its files."""
    for path in sorted(Path(config.docs_dir).parent.glob("conf/*.toml")):
        files.append(File.generated(config, f"conf-{path.stem}.md", content=configuration(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page. It fixes links that work in the repository and would not work on the site.

    Links to example configurations lead to their pages. Links to other files outside docs/ become plain text.
    """
    markdown = re.sub(r"\]\(\.\./conf/(\w+)\.toml\)", r"](conf-\1.md)", markdown)
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)


def configuration(path: Path) -> str:
    """A configuration as Markdown."""
    return f"# conf/{path.name}\n\nCopy this example and change it: [jobs](jobs.md).\n\n```toml\n{path.read_text(encoding='utf-8')}```\n"
