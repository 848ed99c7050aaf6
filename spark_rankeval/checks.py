"""Checks of arguments, parameters and engines, the packages of extras, and this package: its version, and itself as a zip for executors.

It needs Python alone, so that `make dist` installs nothing.
"""

from __future__ import annotations

import io
import math
import numbers
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any
from weakref import WeakKeyDictionary

from spark_rankeval.errors import EngineError, InputError, MissingExtraError, OptionError, warn

__version__ = "0.1.0"

#: What PySpark's warning about every pandas from 3 on begins with. What is used here works with it.
PANDAS_NOTICE = "PySpark does not yet fully support pandas"
#: The environment variable that lets calls run on engines without tests.
UNTESTED = "SPARK_RANKEVAL_UNTESTED_ENGINE"
SPARK = "Spark"
# Ranks are counted in 32 bits on the way through Spark.
_LARGEST_CUTOFF = 2**31 - 1
# The version of Sail that the tests run on.
_SAIL_VERSION = "0.7.2"
# What Spark's own server says of itself: its version without a vendor's suffix, and the revision of its source.
_SPARK_SERVER = re.compile(r"(\d+\.\d+\.\d+)\S* [0-9a-f]{40}")
# The rows of a short trial of an engine: five users, a NaN, lists and hashes.
_TRIAL = """
SELECT id % 5 AS user, IF(id = 3, double('NaN'), double(id)) AS score, array(id, id) AS items, xxhash64(id) AS hash FROM range(20)
"""
_HASH_OF_0 = -5252525462095825812
# The tested engine behind each session, and its version.
_engines: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()


def one_of(option: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a value that an option does not allow."""
    # 1 is not True here, and a value without a hash or == is not allowed.
    if not any(type(value) is type(choice) and value == choice for choice in allowed):
        msg = f"{option} must be one of {', '.join(map(repr, allowed))}; got {value!r}"
        raise OptionError(msg)


def as_names(option: str, columns: object) -> tuple[str, ...]:
    """The names of columns as a caller gives them: one, or several different ones."""
    names = (columns,) if isinstance(columns, str) else columns
    if (
        not isinstance(names, tuple | list)
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
    ):
        msg = f"{option} must be a column name or a list of distinct column names; got {columns!r}"
        raise InputError(msg)
    return tuple(names)


# Parts with dots between them, and no slash.
_TABLE_NAME = re.compile(r"[^/\\:.]+(\.[^/\\:.]+)+")


def check_place(option: str, path: str) -> None:
    """Refuse a path of the web, one that Spark would read as a pattern, and one that reads as the name of a table."""
    special = [character for character in "[]{}*?\\" if character in path]
    if special:
        msg = (
            f"{option}: {path} contains {' '.join(special)}, which Spark reads as a wildcard pattern; choose a path without "
            "these characters"
        )
        raise OptionError(msg)
    if path.lower().startswith(("http://", "https://")):
        msg = f"{option}: {path} is an address of the web, where no table can be written; name a folder or an object store"
        raise OptionError(msg)
    if _TABLE_NAME.fullmatch(path):
        table = f"write a table with table={path!r}, and a folder" if option == "path" else "write a folder"
        msg = f"{option}: {path} reads as the name of a table; {table} of that name with a slash, as in './{path}'"
        raise OptionError(msg)


def is_number(value: object, kind: type = numbers.Real) -> bool:
    """Whether a value is a number of a kind; booleans are not."""
    return isinstance(value, kind) and not isinstance(value, bool)


def is_name(value: object) -> bool:
    """Whether a value can name a model: text that is not blank and fits UTF-8, unlike half a surrogate pair."""
    return isinstance(value, str) and bool(value.strip()) and value.encode(errors="ignore").decode() == value


def check_table(role: str, frame: Any, *, instead: str = "") -> None:
    """Refuse what is not a Spark DataFrame, one that never ends, and one of an engine without tests.

    `instead` is what else the role allows. By now tables of pandas, polars and pyarrow are DataFrames (`takes_local_tables`).
    """
    if not is_table(frame):
        kind = type(frame)
        package = kind.__module__.partition(".")[0]
        advice = _AS_TABLE.get(f"{kind.__module__}.{kind.__name__}") or _AS_TABLE.get(package) or _TABLES
        if isinstance(frame, dict) and any(map(is_table, frame.values())):
            advice = "Pass one of its tables"
        msg = f"{role} must be a table{f' or {instead}' if instead else ''}; got a {kind_of(frame)}. {advice}"
        raise InputError(msg)
    if frame.isStreaming:
        msg = (
            f"{role} must be a batch DataFrame; got a streaming one. Read it as a batch, or evaluate each micro-batch in "
            "foreachBatch"
        )
        raise InputError(msg)
    tested_engine(frame.sparkSession)


def tested_engine(session: Any) -> tuple[str, str]:
    """The name of the engine behind a session and its version; the first call asks the engine, and the others remember.

    Raises:
        EngineError: no test has run on the engine, a short trial fails, and `UNTESTED` does not say ``allow``.
    """
    if session not in _engines:
        name, version = _name_and_version(session)
        if (name, version) != ("Sail", _SAIL_VERSION) and name != SPARK and os.environ.get(UNTESTED) != "allow":
            untested = f"the session runs on {name} {version}, on which no test of this package has run"
            if problem := _problem_of_trial(session):
                msg = (
                    f"{untested}, and in a short trial {problem}. Use PySpark or Sail {_SAIL_VERSION}, or set the environment variable "
                    f"{UNTESTED}=allow to go on regardless"
                )
                raise EngineError(msg)
            warn(f"{untested}; a short trial of partitions, NaN, lists and hashes went well")
        _engines[session] = name, version
    return _engines[session]


def _name_and_version(session: Any) -> tuple[str, str]:
    """Ask a session for its engine. Vendors add a suffix to the version of a session, as in ``3.5.6-amzn-1``."""
    if not is_connect(session):
        return SPARK, session.version
    (row,) = session.sql("SELECT version() AS version").collect()
    version = row["version"]
    server = _SPARK_SERVER.fullmatch(version)
    if server and re.match(rf"{re.escape(server[1])}(?!\d)", session.version):
        return SPARK, session.version
    return ("Sail" if _is_sail(session) else "an unknown engine"), version


def _problem_of_trial(session: Any) -> str | None:
    """What goes wrong when an engine sends a few rows to Python, user by user; None if nothing does."""

    # A function within a function travels as it is, so workers need not have this package.
    def summaries(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 # of the worker

        rows = [row for batch in batches for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pydict(
            {
                "users": [sorted({row["user"] for row in rows})],
                "n_nan": [sum(row["score"] != row["score"] for row in rows)],  # NaN alone differs from itself
                "n_lists": [sum(len(set(row["items"])) == 1 and len(row["items"]) == 2 for row in rows)],
                "hashes": [[row["hash"] for row in rows if row["items"][0] == 0]],
            }
        )

    schema = "users array<bigint>, n_nan bigint, n_lists bigint, hashes array<bigint>"
    try:
        parts = session.sql(_TRIAL).repartition(3, "user").mapInArrow(summaries, schema).collect()
    except Exception as error:  # each client has its own
        return f"rows did not get to Python: {str(error).strip().partition(chr(10))[0]}"
    if sorted(user for part in parts for user in part["users"]) != list(range(5)):
        return "the rows of a user came in several partitions, or not at all"
    if sum(part["n_nan"] for part in parts) != 1:
        return "NaN came as another value"
    if sum(part["n_lists"] for part in parts) != 20:
        return "lists came as other values"
    return (
        None if [hash_ for part in parts for hash_ in part["hashes"]] == [_HASH_OF_0] else "hashes differ from Spark's"
    )


def _is_sail(session: Any) -> bool:
    """Whether the session has a table of Sail's own, which is there whatever catalogues are configured."""
    try:
        return bool(session.catalog.tableExists("system.session.sessions"))
    except Exception:  # another engine may refuse names of three parts
        return False


def is_connect(session: Any) -> bool:
    """Whether a session is one of Spark Connect."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(session).__mro__)


def kind_of(value: object) -> str:
    """The class of a value, with its package, because many packages have a DataFrame."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{package} {kind.__name__}"


def is_table(value: Any) -> bool:
    """Whether something is a Spark DataFrame, classic or of Connect, which have no common base in Spark 3.5."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(value).__mro__
    )


#: Tables in the memory of this process, by package; none of these is imported.
_LOCAL_TABLES = {
    "pandas": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "pyarrow": ("Table", "RecordBatch"),
}


def local_package(value: Any) -> str | None:
    """The package of a table of pandas, polars or pyarrow; None for anything else."""
    kinds = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__)
    return next((package for package, name in kinds if name in _LOCAL_TABLES.get(package, ())), None)


#: How what other packages have instead becomes a table.
_AS_TABLE = {
    "builtins.dict": "Make rows: pd.DataFrame([(q, d, x) for q, of_q in table.items() for d, x in of_q.items()], columns=[…])",
    "snowflake": "Save it as a table, and read that table with Spark",
    "pyspark.pandas.frame.DataFrame": "Pass table.to_spark()",
    "pyspark.sql.group.GroupedData": "Aggregate it with agg(), which gives a DataFrame",
    "pyspark.sql.connect.group.GroupedData": "Aggregate it with agg(), which gives a DataFrame",
}
_TABLES = "Tables are DataFrames of Spark, pandas or polars, or Tables of pyarrow"


def check_name(option: str, name: object) -> None:
    """Refuse what is neither a column's name nor None."""
    if not (name is None or isinstance(name, str)):
        msg = f"{option} must be a column name; got {name!r}"
        raise InputError(msg)


#: The packages of each extra of pyproject.toml: the requirement by the name of the import.
EXTRAS = {
    "sail": {"pysail": "pysail>=0.7.2,<0.8", "pyspark": "pyspark-client>=4.0,<4.3"},
    "report": {"altair": "altair>=5.5", "vl_convert": "vl-convert-python>=1.7", "jinja2": "jinja2>=3.1"},
    "yaml": {"yaml": "pyyaml>=6.0"},
    "notebook": {"tqdm": "tqdm>=4.66", "ipywidgets": "ipywidgets>=8"},
    "mlflow": {"mlflow": "mlflow-skinny>=3", "sqlalchemy": "sqlalchemy>=1.4,<3", "alembic": "alembic>=1.10.1,<2"},
}


def installed_version(package: str) -> str | None:
    """The version of a package by its name on an index; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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


def number(
    low: float,
    high: float = math.inf,
    *,
    what: str,
    open_low: bool = False,
    open_high: bool = False,
    optional: bool = False,
) -> Callable[[Any], str | None]:
    """A check that a parameter is a number from `low` to `high`; None passes, too, if it is `optional`."""

    def check(value: Any) -> str | None:
        if value is None and optional:
            return None
        if not is_number(value):
            return what
        try:
            number = float(value)
        except OverflowError:
            return what
        # NaN is in no interval.
        is_inside = low <= number <= high and not (open_low and number == low) and not (open_high and number == high)
        return None if is_inside else what

    return check


def is_cutoff(value: Any) -> bool:
    """Whether a value is a number of places: a whole number from 1 on."""
    return is_number(value, numbers.Integral) and 1 <= value <= _LARGEST_CUTOFF


def read_numbers(listed: object) -> list[float]:
    """The numbers in a string such as ``0.5,0.3,0.2`` or in a sequence; a single number becomes a list of one.

    Raises:
        ValueError, TypeError: the value cannot be read as numbers.
    """
    if isinstance(listed, str):
        return [float(part) for part in listed.split(",")]
    if isinstance(listed, numbers.Real) and not isinstance(listed, bool):
        return [float(listed)]
    if isinstance(listed, Iterable):
        return [float(part) for part in listed]
    raise TypeError


def are_weights(values: Sequence[float]) -> bool:
    """Whether numbers are finite, from 0 on, and not all 0."""
    return all(0 <= value < math.inf for value in values) and 0 < sum(values) < math.inf


def problem_of_numbers(
    listed: Any, wanted: str, are_valid: Callable[[Sequence[float]], bool] = are_weights
) -> str | None:
    """None if the value is None, or valid numbers. Otherwise `wanted`."""
    if listed is None:
        return None
    try:
        return None if are_valid(read_numbers(listed)) else wanted
    except (TypeError, ValueError):
        return wanted


def as_text(listed: object) -> str:
    """Numbers as a string that `read_numbers` reads back; equal numbers give equal strings."""
    return ",".join(map(repr, read_numbers(listed)))


_PACKAGE = "spark_rankeval"
#: The earliest time that a zip can hold.
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def package_zip(folder: str | os.PathLike[str]) -> str:
    """Write the running package as ``spark_rankeval.zip``, for executors on which it is not installed.

    The same package gives the same bytes every time. Spark refuses a second file of the same name only if its content
    differs, so a notebook cell that sends the zip can run again.

    Executors need numpy, pandas and pyarrow beside it. Pass the zip to ``spark.addArtifacts(path, pyfile=True)`` on Spark Connect, or in
    classic sessions since Spark 4. Else pass it to ``spark.sparkContext.addPyFile(path)`` or ``spark-submit --py-files``.

    Examples:
        >>> path = package_zip(folder)
        >>> path.removeprefix(folder)
        '/spark_rankeval.zip'

    Args:
        folder: where to write it; a folder on this machine.

    Returns:
        the path of the zip.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, resources.files(_PACKAGE), PurePosixPath(_PACKAGE))
    path = os.path.join(folder, f"{_PACKAGE}.zip")  # Spark takes a string
    # The file is written at the end, because the package may be running from it.
    Path(path).write_bytes(content.getvalue())
    return path


def _add(archive: zipfile.ZipFile, folder: Traversable, name: PurePosixPath) -> None:
    """Add a folder of sources, which may itself be inside a zip, so that equal sources give equal bytes."""
    for part in sorted(folder.iterdir(), key=lambda part: part.name):
        if part.is_dir():
            if part.name != "__pycache__":
                _add(archive, part, name / part.name)
        elif part.name.endswith((".py", ".typed", ".html", ".css", ".json")):
            entry = zipfile.ZipInfo(str(name / part.name), date_time=_ZIP_DATE)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # Unix, whatever machine writes it
            archive.writestr(entry, part.read_bytes(), zipfile.ZIP_DEFLATED)
