"""``spark.read.format("trec_run")`` and ``"trec_qrels"``: data sources in Python, as Spark 4 takes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_rankeval.checks import one_of
from spark_rankeval.errors import InputError, UnavailableError
from spark_rankeval.trec.files import list_files, name_of, read_lines
from spark_rankeval.trec.lines import QRELS, RUN, Form, parse

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ModuleNotFoundError:  # Spark 3.5 has no such thing, which `register` says.
    DataSource = DataSourceReader = InputPartition = object  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: The column that says what is wrong with a line, and where it stands.
MALFORMED = "malformed"
MODELS = ("tag", "file")


def register(spark: SparkSession) -> None:
    """Make the formats ``trec_run`` and ``trec_qrels`` known to a session.

    ``spark.read.format("trec_run").load("runs/*.gz")`` then reads as `read_run` does, lazily: nothing is looked at before, and a
    line that does not read is a row that has its query alone, if that, and in the column ``malformed`` the file, the number of
    the line, and what is wrong. `evaluate` refuses such rows, and `check` says which they are. Files are read by Python
    workers: a task a file, from this disk or what Arrow reads (``s3``, ``gs``, ``hdfs``). Workers need this package, as they do for
    `evaluate`.

    Args:
        spark: a session of Spark 4 or newer.

    Raises:
        UnavailableError: the session is of Spark 3.5.
    """
    if not hasattr(spark, "dataSource"):
        msg = f"Spark {spark.version} has no data sources in Python, which came with 4.0; read_run and read_qrels read there too"
        raise UnavailableError(msg)
    for source in (RunSource, QrelsSource):
        spark.dataSource.register(source)


class _File(InputPartition):
    """One file, the work of a task."""

    def __init__(self, path: str) -> None:
        self.path = path


class _LinesReader(DataSourceReader):
    """Reads files of a form."""

    def __init__(self, form: Form, paths: list[str], model: str) -> None:
        self._form, self._paths, self._model = form, paths, model

    def partitions(self) -> list[_File]:
        return [_File(file) for file in list_files(self._paths)]

    def read(self, partition: _File) -> Iterator[pa.RecordBatch]:  # type: ignore[override] # a file is what partitions gives
        n_before = 0
        for lines in read_lines(partition.path):
            parsed = parse(pa.array(lines, pa.binary()), self._form)
            columns = dict(parsed.columns)
            if self._model == "file":
                columns["model"] = pc.if_else(
                    pc.is_null(parsed.problem), name_of(partition.path), pa.scalar(None, pa.string())
                )
            numbers = pc.cast(pa.array(parsed.place + n_before + 1), pa.string())
            where = pc.binary_join_element_wise(partition.path, numbers, ":")
            columns[MALFORMED] = pc.binary_join_element_wise(where, parsed.problem, ": ")
            n_before += len(lines)
            yield pa.RecordBatch.from_pydict(columns)


class _TrecSource(DataSource):
    """A form of file as a data source."""

    form: ClassVar[Form]

    @classmethod
    def name(cls) -> str:
        return f"trec_{cls.form.name}"

    def schema(self) -> str:
        return f"{self.form.schema()}, {MALFORMED} string"

    def reader(self, schema: StructType) -> DataSourceReader:
        wanted = [*self.form.columns, MALFORMED]
        if schema.names != wanted:
            msg = f"{self.name()} has the columns {', '.join(wanted)}; leave the schema out; got {', '.join(schema.names)}"
            raise InputError(msg)
        given = self.options.get("paths")
        paths = json.loads(given) if given else [self.options["path"]] if self.options.get("path") else []
        if not paths:
            msg = f"{self.name()}: say what to read, with load(path)"
            raise InputError(msg)
        model = self.options.get("model", "tag")
        one_of("model", model, MODELS)
        return _LinesReader(self.form, paths, model if "model" in self.form.columns else "tag")


class RunSource(_TrecSource):
    """The format ``trec_run``: query, item, rank, score, model."""

    form = RUN


class QrelsSource(_TrecSource):
    """The format ``trec_qrels``: query, iteration, item, grade."""

    form = QRELS
