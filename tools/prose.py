"""Check the prose of pages, docstrings and comments: no long sentence, none of the worst habits; a part of `make lint`.

    python tools/prose.py [file or folder …]

Tables, code and headings are left out.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = 25
THINGS = r"(?:row|entry|value|column|line|message|batch|number|user|item|group|slice|metric|cluster|run|model|bucket|list|key|table)"
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
    r"\d %": "write '5%'",
    r"\bwhat no \w+\b": "begin with the subject",
    rf"\b(?:an?|one) {THINGS} an? {THINGS}\b": "write 'one … per …'",
}
# Words of our own that code once had.
HABITS_IN_CODE = {
    r"\b(?:nobody|somebody)\b": "write 'no user' or 'invalid user'",
    r"\btold\b": "use an active verb",
    r"\bwhat is (?:said|asked|given|known|found) (?:of|for|about|beside)\b": "write a noun",
    r"\ban? one\b": "write a noun",
}
# What is no prose of a page: fenced code, comments, tables, headings, HTML, commands.
NO_PROSE = re.compile(r"^```.*?^```|<!--.*?-->|^ *\|.*?$|^#.*?$|^ *</?\w.*?$|^ {4}python .*?$", re.M | re.S)
# What counts as a word: symbols of a formula do not.
WORD = re.compile(r"[^\W\d_]{2}|\d|^[aAI]$")
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


def problems_of(text: str, habits: dict[str, str]) -> Iterator[tuple[int, str]]:
    """What is wrong with a text, each with its line."""
    for line, paragraph in paragraphs(text):
        # Code and the target of a link count as one word.
        plain = re.sub(r"`[^`]*`", "`code`", re.sub(r"\]\([^)]*\)", "]", paragraph))
        # So do several pieces of code one after the other.
        plain = re.sub(r"(?:\[?`code`\]?,?\s*(?:and |or )?){2,}", "`code` ", plain)
        for sentence in SENTENCE_END.split(" ".join(plain.split())):
            n = sum(map(bool, map(WORD.search, sentence.split())))
            if n > MOST_WORDS:
                yield line, f"{n} words: {sentence[:60]} …"
            for habit, advice in habits.items():
                if found := re.search(habit, sentence, re.I):
                    yield line, f"{found[0]!r}: {advice}"


def docstrings_of(text: str) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, each with its line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, ENTRIES.sub("", docstring)


def comments_of(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a module that stand on lines of their own, each with its first line."""
    for block in re.finditer(r"(?:^ *# .*\n)+", text, re.M):
        yield text.count("\n", 0, block.start()) + 1, re.sub(r"^ *# ", "", block[0], flags=re.M)


def texts_of(file: Path) -> Iterator[tuple[int, str]]:
    """The prose of a file, each piece with its line."""
    text = file.read_text()
    if file.suffix == ".py":
        yield from docstrings_of(text)
        yield from comments_of(text)
    else:
        yield 1, text


def problems(places: list[Path]) -> Iterator[str]:
    """What is wrong with the prose of files and of all in folders."""
    for place in places:
        for file in sorted(place.rglob("*.py")) + sorted(place.rglob("*.md")) if place.is_dir() else [place]:
            habits = HABITS | HABITS_IN_CODE if file.suffix == ".py" else HABITS
            for start, text in texts_of(file):
                for line, problem in problems_of(text, habits):
                    yield f"{file.relative_to(ROOT)}:{start + line - 1}: {problem}"


if __name__ == "__main__":
    default = [*sorted(ROOT.glob("*.md")), *(ROOT / folder for folder in ("docs", "spark_rankeval", "jobs"))]
    found = list(problems([Path(name).resolve() for name in sys.argv[1:]] or default))
    print("\n".join(found) or "prose: nothing found")
    sys.exit(bool(found))
