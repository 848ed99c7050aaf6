"""Find planted faults again after code has moved: `python -m tests.mutants.find`.

Faults without a function get the name of the one in which their text stands. A fault whose text is not in its function, once, is looked
for in all modules, whatever the indentation: in a function of this name, or else anywhere. Order and comments of faults.toml stay. The
command prints what has moved, and which faults stay as they are because their text is nowhere or in several places.
"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from .run import FAULTS, ROOT, Fault, read_faults, scopes_of

BLOCK = re.compile(r"^\[\[fault\]\]\n", re.MULTILINE)
# A key with its value, on one line or on several.
VALUE = r"^{}\ =\ (?:'''.*?'''|\"\"\".*?\"\"\"|[^\n]*)\n"


def pattern_of(text: str) -> re.Pattern[str]:
    """What finds a text in any indentation."""
    first, *others = text.split("\n")
    whole = ("[ ]*" if first.startswith(" ") else "") + re.escape(first.lstrip())
    return re.compile(whole + "".join(f"\n[ ]*{re.escape(each.lstrip())}" if each.strip() else "\n" for each in others))


def shift_of(text: str, other: str) -> int:
    """By how much another occurrence of a text is indented further."""
    lines = list(zip(text.split("\n"), other.split("\n"), strict=True))
    pairs = lines if text.startswith(" ") else lines[1:]
    return next((_indent(new) - _indent(old) for old, new in pairs if old.strip()), 0)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def indented(text: str, shift: int) -> str:
    """A text with its whole lines indented further."""
    lines = text.split("\n")
    first = 0 if text.startswith(" ") else 1
    moved = [" " * (_indent(line) + shift) + line.lstrip() if line.strip() else line for line in lines[first:]]
    return "\n".join([*lines[:first], *moved])


def likeness(name: str, other: str) -> tuple[int, bool]:
    """How many of the last parts of two qualified names are alike, and whether all are."""
    pairs = zip(name.split(".")[::-1], other.split(".")[::-1], strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs))), name == other


def occurrences(fault: Fault, file: str, source: str) -> Iterator[tuple[tuple[int, bool], Fault]]:
    """The fault wherever its text stands in a module, and how alike the names of the functions are."""
    for match in pattern_of(fault.text).finditer(source):
        start, end = match.start() + _indent(match.group()), match.start() + len(match.group().rstrip())
        around = [scope for scope in scopes_of(source) if scope.first <= start and end <= scope.end]
        names = [scope.name for scope in sorted(around, key=lambda scope: scope.end - scope.first)] or [""]
        # The innermost function, if none has the name.
        alike, function = max(((likeness(fault.function, name), name) for name in names), key=lambda each: each[0])
        becomes = indented(fault.becomes, shift_of(fault.text, match.group()))
        moved = replace(fault, file=file, function=function, text=match.group(), becomes=becomes)
        with suppress(ValueError, SyntaxError):
            ast.parse(moved.applied(source))
            yield alike, moved


def placed(fault: Fault, sources: Mapping[str, str]) -> Fault | None:
    """The fault where it stands now; None if it is found nowhere, or in several places that are as likely."""
    source = sources.get(fault.file, "")
    if fault.function and len(fault.places(source)) == 1:
        return fault
    files = [fault.file] if not fault.function and source.count(fault.text) == 1 else sources
    found = [each for file in files for each in occurrences(fault, file, sources[file])]
    likely = [moved for alike, moved in found if alike == max(each for each, _ in found)]
    return likely[0] if len(likely) == 1 else None


def written(block: str, before: Fault, now: Fault) -> str:
    """The block of a fault with the values that changed."""
    for key in ("text", "becomes", "file"):
        if getattr(now, key) != getattr(before, key):
            line = f"{key} = {_literal(getattr(now, key))}\n"
            block = re.sub(VALUE.format(key), lambda _, line=line: line, block, count=1, flags=re.MULTILINE | re.DOTALL)
    function = f"function = {_literal(now.function)}\n"
    without = re.sub(VALUE.format("function"), "", block, flags=re.MULTILINE)
    return re.sub(VALUE.format("file"), lambda line: line.group() + function, without, flags=re.MULTILINE)


def _literal(value: str) -> str:
    if "\n" in value and "'''" not in value:
        return f"'''\n{value}'''"
    return json.dumps(value, ensure_ascii=False) if "'" in value or '"' not in value else f"'{value}'"


def find(file: Path = FAULTS, package: Path = ROOT / "spark_rankeval") -> list[Fault]:
    """Write where all faults of a file stand; those that were not found are returned."""
    sources = {path.relative_to(package).as_posix(): path.read_text() for path in sorted(package.rglob("*.py"))}
    head, *blocks = BLOCK.split(file.read_text())
    faults, lost, texts = read_faults(file), [], [head]
    for fault, block in zip(faults, blocks, strict=True):
        now = placed(fault, sources)
        texts.append(block if now is None or now == fault else written(block, fault, now))
        if now is None:
            lost.append(fault)
        elif now.file != fault.file or (fault.function and now.function != fault.function):
            sys.stdout.write(f"{fault.id}: {fault.file} → {now.file}, {now.function}\n")
    whole = "[[fault]]\n".join(texts)
    assert len(tomllib.loads(whole)["fault"]) == len(faults)
    file.write_text(whole)
    return lost


if __name__ == "__main__":
    missing = find()
    sys.stdout.write(
        "".join(f"not found: {fault.id} ({fault.file}, {fault.function or 'the module'})\n" for fault in missing)
    )
    sys.exit(bool(missing))
