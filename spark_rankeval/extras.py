"""Packages that only some uses need."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from spark_rankeval.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The packages of each extra of pyproject.toml: the requirement by the name of the import.
EXTRAS = {
    "sail": {"pysail": "pysail>=0.7.2,<0.8", "pyspark": "pyspark-client>=4.0,<4.3"},
    "report": {"altair": "altair>=5.5", "vl_convert": "vl-convert-python>=1.7", "jinja2": "jinja2>=3.1"},
    "yaml": {"yaml": "pyyaml>=6.0"},
    "notebook": {"tqdm": "tqdm>=4.66", "ipywidgets": "ipywidgets>=8"},
    "mlflow": {"mlflow": "mlflow-skinny>=2.14", "sqlalchemy": "sqlalchemy>=1.4,<3", "alembic": "alembic>=1.10.1,<2"},
}


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Imports of an extra's packages; the purpose is the plural subject of the error if one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS[extra]:
            raise
        raise _missing(missing, extra, purpose) from error


def check_extra(extra: str, purpose: str, only: Iterable[str] | None = None) -> None:
    """Refuse a purpose if one of the extra's packages, or of some of them, is not installed; none is imported."""
    for package in EXTRAS[extra] if only is None else only:
        if find_spec(package) is None:
            raise _missing(package, extra, purpose)


def _missing(package: str, extra: str, purpose: str) -> MissingExtraError:
    # The packages' names work with a checkout, a wheel and a zip of this package. Another PySpark would overwrite the one that is there.
    lacking = [requirement for name, requirement in EXTRAS[extra].items() if name == package or find_spec(name) is None]
    packages = " ".join(f"'{requirement}'" for requirement in lacking)
    msg = f"{purpose} need the package {package}; install it with pip install {packages} (the extra {extra!r})"
    return MissingExtraError(msg)
