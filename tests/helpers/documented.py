"""The examples of the written pages: Python blocks, run one after the other, and what they print.

In a page, a plain block right after a Python block is what that one prints. A block that is not run has a comment before it,
`<!-- not run: why -->`.
"""

import contextlib
import io
import re
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"(?:^<!-- not run: (?P<why>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


class Example(NamedTuple):
    page: Path
    line: int
    code: str
    printed: str | None
    not_run: str | None

    def run(self, names):
        """Run it among the names; what it printed."""
        screen = io.StringIO()
        code = compile("\n" * self.line + self.code, str(self.page), "exec")
        with contextlib.redirect_stdout(screen):
            exec(code, names)
        return screen.getvalue()


def examples_of(page):
    text = page.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    examples = []
    for block, following in zip_longest(found, found[1:]):
        if block["language"] != "python":
            continue
        printed = None
        if following and not following["language"] and not text[block.end() : following.start()].strip():
            printed = following["text"]
        if block["why"] is not None and len(block["why"].split()) < 4:
            raise ValueError(f"{page}: {block['why']!r} is no reason for not running an example")
        line = text.count("\n", 0, block.start("text"))
        examples.append(Example(page, line, block["text"], printed, block["why"]))
    return examples


def differences_of(examples, names):
    """Run the examples of a page; what is printed otherwise than the page says, as (line, said, printed)."""
    found = []
    for example in examples:
        printed = example.run(names)
        if example.printed is not None and trimmed(printed) != trimmed(example.printed):
            found.append((example.line, example.printed, printed))
    return found


def trimmed(text):
    """Without the blanks that end lines, which editors remove."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]
