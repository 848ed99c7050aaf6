"""Check the form of messages: what is wrong, where, and what to do, in one or two short sentences; a part of `make lint`.

    python tools/messages.py

A message begins with a small letter, and has no full stop at its end.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parent.parent / "spark_rankeval"
MOST_WORDS, MOST_SENTENCES = 30, 2
# What a text holds where the code fills in a value.
FILLED = "…"
# Words that begin with a capital wherever they stand.
NAMES = ("ALS", "Cube", "Spark", "MLflow")


class Message(NamedTuple):
    """A text that users may be shown, and where it stands."""

    place: str
    text: str


def texts_of(node: ast.AST, assigned: dict[str, list[ast.expr]]) -> Iterator[str]:
    """The texts that an expression may have, with a mark for each value that is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else FILLED for part in node.values)
        case ast.BinOp(left=left, right=right):
            after = next(texts_of(right, assigned), FILLED)
            yield from (text + after for text in texts_of(left, assigned))
        case ast.Name(id=name):
            for value in assigned.get(name, []):
                yield from texts_of(value, {})
        case ast.List() | ast.Tuple():
            for element in node.elts:
                yield from texts_of(element, assigned)
        case ast.ListComp():
            yield from texts_of(node.elt, assigned)


def shown_by(node: ast.AST) -> ast.AST | None:
    """What a statement shows a user: the text of an error, of a warning or of a problem in a list of them."""
    match node:
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name), args=[text, *_])) if name not in INTERNAL:
            return text
        case ast.Call(func=ast.Name(id="warn") | ast.Attribute(attr="warn"), args=[text, *_]):
            return text
        case ast.Call(func=ast.Attribute(attr="append", value=ast.Name(id="problems")), args=[text]):
            return text
        case ast.AugAssign(target=ast.Name(id="problems"), value=ast.List() | ast.ListComp() as text):
            return text
        case ast.Yield(value=ast.JoinedStr() as text):
            return text
    return None


# What only a mistake of the package itself raises, or Python's own protocols ask for.
INTERNAL = {"AttributeError", "TypeError", "NotImplementedError"}


def messages_of_the_package() -> Iterator[Message]:
    """Every message, as often as it stands somewhere."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file, tree = path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            assigned: dict[str, list[ast.expr]] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    assigned.setdefault(node.targets[0].id, []).append(node.value)
            for node in ast.walk(function):
                text = shown_by(node)
                if text is None or (isinstance(node, ast.Yield) and not file.endswith("/gates.py")):
                    continue
                place = f"{file}:{text.lineno}"  # type: ignore[attr-defined] # of an expression
                yield from (Message(place, text) for text in texts_of(text, assigned) if " " in text)


def faults_of(text: str) -> Iterator[str]:
    """What is wrong with the form of a message."""
    begin = text.lstrip("'\"…[(@: ")
    if begin[:1].isupper() and not begin.startswith(NAMES) and not re.match(r"\w+\(", begin):
        yield "begins with a capital"
    if "  " in text:
        yield "has two spaces"
    if text.endswith("."):
        yield "ends with a full stop"
    sentences = re.split(r"(?<=[.?]) (?=[A-Z…])", text)
    if len(sentences) > MOST_SENTENCES:
        yield f"has {len(sentences)} sentences"
    for sentence in sentences:
        words = len(sentence.split())
        if words > MOST_WORDS:
            yield f"has a sentence of {words} words"


if __name__ == "__main__":
    messages = list(dict.fromkeys(messages_of_the_package()))
    wrong = [f"{message.place}: {fault}: {message.text}" for message in messages for fault in faults_of(message.text)]
    print("\n".join(wrong) or f"messages: nothing found in {len(messages)}")
    sys.exit(bool(wrong))
