"""What the site has beside the pages: the example configurations, links that the repository writes otherwise, and llms.txt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by mkdocs for each page. It fixes links that work in the repository and would not work on the site.

    The page of configurations shows them, and links to one lead to its section. Links to other files outside docs/ become plain text.
    """
    if page.file.src_uri == "configuration.md":
        markdown += configurations(Path(config.docs_dir).parent / "conf")
    markdown = re.sub(r"\]\(\.\./conf/(\w+)\.toml\)", r"](configuration.md#conf\1toml)", markdown)
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)


def configurations(folder: Path) -> str:
    """All example configurations as sections of Markdown."""
    files = sorted(folder.glob("*.toml"))
    return "".join(f"\n## conf/{file.name}\n\n```toml\n{file.read_text(encoding='utf-8')}```\n" for file in files)


def on_post_build(*, config: Any) -> None:
    """Called by mkdocs when the site is there. It writes llms.txt, the list of pages for programs that read (https://llmstxt.org)."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for entry in config.nav:
        ((section, pages),) = entry.items()
        listed = [{section: pages}] if isinstance(pages, str) else pages
        lines += ["", f"## {section}", ""]
        lines += [f"- [{title}]({file.removesuffix('.md')}.html)" for page in listed for title, file in page.items()]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
