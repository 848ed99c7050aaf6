"""Check that a tag, the version of the package and the changelog agree, before a release is built.

python tools/check_release.py v0.1.0
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What does not agree, in sentences; empty if all does."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    in_package = re.search(r'^__version__ = "(.+)"', (root / "spark_rankeval/checks.py").read_text("utf-8"), re.M)
    in_citation = re.search(r"^version: (.+)", (root / "CITATION.cff").read_text("utf-8"), re.M)
    in_changelog = re.search(
        r"^## \[([^]]+)\]( - \d{4}-\d{2}-\d{2})?", (root / "CHANGELOG.md").read_text("utf-8"), re.M
    )
    found = [f"the tag is {tag}, and pyproject.toml has {version}"] if tag != f"v{version}" else []
    for name, match in {"checks.py": in_package, "CITATION.cff": in_citation, "CHANGELOG.md": in_changelog}.items():
        if match is None or match[1] != version:
            found.append(f"{name} begins with {match[1] if match else 'no version'}, and pyproject.toml has {version}")
    if in_changelog is not None and not in_changelog[2]:
        found.append(f"the changelog gives {in_changelog[1]} no date")
    return found


if __name__ == "__main__":
    found = problems(sys.argv[1])
    print("\n".join(found) or "tag, version and changelog agree")
    sys.exit(bool(found))
