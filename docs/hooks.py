"""The page of example configurations, which mkdocs.yml names and conf/ has, and links that the repository and the site write otherwise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, *, config: Any) -> Files:
    """Called by mkdocs when it knows its files."""
    folder = Path(config.docs_dir).parent / "conf"
    files.append(File.generated(config, "configuration.md", content=configurations(folder)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page. It fixes links that work in the repository and would not work on the site.

    Links to example configurations lead to their sections. Links to other files outside docs/ become plain text.
    """
    markdown = re.sub(r"\]\(\.\./conf/(\w+)\.toml\)", r"](configuration.md#conf\1toml)", markdown)
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)


def configurations(folder: Path) -> str:
    """All example configurations as one page of Markdown."""
    title = "# Configuration files\n\nCopy an example and change it. Each lists every key of [a job](jobs.md) with its default.\n"
    files = sorted(folder.glob("*.toml"))
    return title + "".join(
        f"\n## conf/{file.name}\n\n```toml\n{file.read_text(encoding='utf-8')}```\n" for file in files
    )
