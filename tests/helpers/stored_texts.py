"""Texts that tests compare with stored ones: the fixture `golden`.

A test module has one file below tests/golden/shown, with a section for each text under a line `=== name`. `REWRITE=1 pytest` of whole
modules writes their files anew, and `git diff` then shows what changed.
"""

import os
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOWN = ROOT / "tests" / "golden" / "shown"
HEADING = "=== "
# So much of a long line is shown around what differs.
_BEFORE, _WIDTH = 60, 200


class StoredTexts:
    """The stored texts of a test module."""

    def __init__(self, module):
        self.path = SHOWN / module.relative_to(ROOT / "tests").with_suffix(".txt")
        self._rewrites, self._texts = bool(os.environ.get("REWRITE")), {}
        if not self._rewrites and self.path.exists():
            for section in f"\n{self.path.read_text(encoding='utf-8')}".split(f"\n{HEADING}")[1:]:
                name, _, text = section.partition("\n")
                self._texts[name] = text.rstrip("\n")

    def texts(self):
        """The stored texts by name."""
        return dict(self._texts)

    def compare(self, name, text):
        """Compare a text with the one stored under the name; white space at the ends of lines does not count."""
        text = "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
        if self._rewrites:
            assert self._texts.setdefault(name, text) == text, f"two texts of the name {name!r}"
            self.path.parent.mkdir(parents=True, exist_ok=True)
            sections = [f"{HEADING}{one}\n{self._texts[one]}\n" for one in self._texts]
            self.path.write_text("\n".join(sections), encoding="utf-8")
        assert name in self._texts, f"no text {name!r} in {self.path}: run the module with REWRITE=1"
        stored = self._texts[name]
        assert text == stored, "\n".join([f"{name} is not as stored:", *changes(stored.split("\n"), text.split("\n"))])


def changes(before, after):
    """The lines that differ, each from a little before the first difference on."""
    shown = []
    for what, start, end, other_start, other_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if what == "equal":
            continue
        old, new = before[start:end], after[other_start:other_end]
        for place in range(max(len(old), len(new))):
            pair = [lines[place] if place < len(lines) else None for lines in (old, new)]
            first = 0 if None in pair else max(0, _first_difference(*pair) - _BEFORE)
            shown += [
                f"{sign} {'…' if first else ''}{line[first : first + _WIDTH]}"
                for sign, line in zip("-+", pair, strict=True)
                if line is not None
            ]
    return shown


def _first_difference(line, other):
    return next((place for place, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), 0)
