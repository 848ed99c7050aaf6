"""Check the prose of the pages and docstrings: no sentence over 30 words, none of the worst habits; a part of `make lint`.

    python tools/prose.py

Tables, code and headings are left out.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = 30
HABITS = {
    r"\bis none of\b": "write 'is not among'",
    r"\bof which\b": "begin another sentence",
    r"\bwhoever\b|\bwho shall\b": "say who",
    r"\bwhere there (is|are)\b": "write 'if' or 'when'",
    r"\bshall\b": "write 'must'",
    r"\b(is|are|was) (warned|told|asked) (of|by)\b": "use an active verb",
    r"\bstands? as\b": "write 'is' or 'are'",
    r"\bby a text\b|\ba text that\b": "write 'a string'",
    r"\bmend(s|ed)?\b": "write 'fix'",
    r"\bwhat no \w+\b": "begin with the subject",
}
# What is no prose of a page: fenced code, comments, tables, headings, HTML, commands.
NO_PROSE = re.compile(r"^```.*?^```|<!--.*?-->|^ *\|.*?$|^#.*?$|^ *</?\w.*?$|^ {4}python .*?$", re.M | re.S)
# A paragraph or an item of a list ends here.
BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )")
SENTENCE_END = re.compile(r"(?<=[.?!:])[)*\"]*\s+(?=[A-Z`*(\"\[])")
# Sections of a docstring whose entries are no sentences, doctests, and code of its own.
ENTRIES = re.compile(
    r"^\s*(?:Args|Attributes|Returns|Raises|Yields):\n(?:(?:[ ]{4}.*)?\n?)*|^\s*>>> .*?(?=\n\s*\n|\Z)", re.M | re.S
)


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a text, each with its line."""
    # Lines stay where they were.
    blank = NO_PROSE.sub(lambda match: "\n\n" * (match[0].count("\n") == 0) or "\n" * match[0].count("\n"), text)
    start = 0
    for end in [*BREAK.finditer(blank), None]:
        stop = len(blank) if end is None else end.start()
        if blank[start:stop].strip():
            yield blank.count("\n", 0, start + 1) + 1, blank[start:stop]
        start = stop


def problems_of(text: str) -> Iterator[tuple[int, str]]:
    """What is wrong with a text, each with its line."""
    for line, paragraph in paragraphs(text):
        # Code and the target of a link count as one word.
        plain = re.sub(r"`[^`]*`", "`code`", re.sub(r"\]\([^)]*\)", "]", paragraph))
        for sentence in SENTENCE_END.split(" ".join(plain.split())):
            n = len(re.findall(r"\w[\w'’-]*", sentence))
            if n > MOST_WORDS:
                yield line, f"{n} words: {sentence[:60]} …"
            for habit, advice in HABITS.items():
                if found := re.search(habit, sentence, re.I):
                    yield line, f"{found[0]!r}: {advice}"


def docstrings_of(file: Path) -> Iterator[tuple[int, str]]:
    """The docstrings of a module and of what is public in it, each with its line."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text and not getattr(node, "name", "").startswith("_"):
                yield node.body[0].lineno, ENTRIES.sub("", text)


def problems() -> Iterator[str]:
    """What is wrong with the prose of the project."""
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    modules = [file for folder in ("spark_rankeval", "jobs") for file in sorted((ROOT / folder).rglob("*.py"))]
    for file in [*pages, *modules]:
        name = str(file.relative_to(ROOT))
        texts = docstrings_of(file) if file.suffix == ".py" else [(1, file.read_text())]
        yield from (
            f"{name}:{start + line - 1}: {problem}" for start, text in texts for line, problem in problems_of(text)
        )


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or "prose: nothing found")
    sys.exit(bool(found))
