"""Packages that only some uses need: what is said where one is missing."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from spark_rankeval.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES = {"report": ("altair", "vl_convert", "jinja2"), "yaml": ("yaml",)}


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Around imports of an extra's packages.

    Args:
        extra: its name.
        purpose: what it is needed for, as the subject of a sentence.

    Raises:
        MissingExtraError: one of them is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _PACKAGES[extra]:
            raise
        raise _missing(missing, extra, purpose) from error


def check_extra(extra: str, purpose: str) -> None:
    """Refuse what an extra is needed for before it is begun, without importing the packages.

    Args:
        extra: its name.
        purpose: what it is needed for, as the subject of a sentence.

    Raises:
        MissingExtraError: one of them is not installed.
    """
    for package in _PACKAGES[extra]:
        if find_spec(package) is None:
            raise _missing(package, extra, purpose)


def _missing(package: str, extra: str, purpose: str) -> MissingExtraError:
    msg = f"{purpose} need the package {package}, which is not installed: pip install 'spark-rankeval[{extra}]'"
    return MissingExtraError(msg)
