"""Run functions in a process, what travels to and from it, and what a feature of a task does there.

A packed state begins with its size (8 bytes). The state follows as a pickle, compressed with Zstandard. A pickle can name any function,
so the reader makes nothing but arrays and classes of this package.
"""

from __future__ import annotations

import gc
import io
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, wraps
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from spark_rankeval.errors import MetricError
from spark_rankeval.ranking.batch import RankingBatch
from spark_rankeval.ranking.ranks import RankingCounts
from spark_rankeval.ranking.user_lists import Array, BoolArray, Ragged, RawLists
from spark_rankeval.request.task import Feature, ScoringTask, View
from spark_rankeval.statistics.description import DescriptionOptions, Figures
from spark_rankeval.worker.reading import Side, with_lists_of_models

if TYPE_CHECKING:
    from spark_rankeval.records.summary import Key
    from spark_rankeval.request.call import CountNames


Batches = Iterator[pa.RecordBatch]

# Zstandard takes a third of zlib's time to pack, and Arrow includes it. Arrow writes no checksum.
_CODEC = "zstd"
_SIZE = 8
# What numpy makes an array of when it is read. Its modules have other names in version 1 than in version 2, and workers may have
# another version than the driver.
_MAKERS: tuple[Any, ...] = (
    np.zeros(1).__reduce_ex__(5)[0],
    np.zeros(1).__reduce__()[0],
    np.float64(0).__reduce__()[0],
    np.dtype,
    np.ndarray,
)
_OF_NUMPY = {each.__name__: each for each in _MAKERS}


def pack(state: Any) -> bytes:
    """Pack numbers, texts, arrays, records of this package, and tuples, lists and dicts of these."""
    whole = pickle.dumps(state, protocol=5)
    # Compression pays: most bytes of sums and counts are 0.
    compressed: bytes = pa.compress(whole, codec=_CODEC, asbytes=True)
    return len(whole).to_bytes(_SIZE, "little") + compressed


def unpack(data: bytes) -> Any:
    """Unpack the output of `pack`; anything that asks for another class or a function is a ValueError."""
    size = int.from_bytes(data[:_SIZE], "little")
    return _Reader(io.BytesIO(pa.decompress(memoryview(data)[_SIZE:], size, codec=_CODEC))).load()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """A class of this package, or what numpy needs to make an array."""
        package = module.partition(".")[0]
        # A name with dots would go through a module of ours to any other.
        if package == "numpy" and name in _OF_NUMPY:
            return _OF_NUMPY[name]
        if (module, name) == ("fractions", "Fraction"):
            return super().find_class(module, name)
        if package == __name__.partition(".")[0] and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        msg = f"a state holds numbers, texts, arrays and records of this package; got {module}.{name}"
        raise ValueError(msg)


class Message(NamedTuple):
    """What a worker sends to others or to the driver.

    Attributes:
        bucket: messages of one kind and bucket meet in one place; None: the message may meet any others of its kind.
        kind: what the payload is, and so what makes one message of several.
        payload: bytes, such as `pack` gives them.
    """

    bucket: int | None
    kind: str
    payload: bytes

    @classmethod
    def of(cls, kind: str, state: Any, bucket: int | None = None) -> Message:
        """A message with a packed state."""
        return cls(bucket, kind, pack(state))

    @property
    def state(self) -> Any:
        """The state that is packed in the payload."""
        return unpack(self.payload)


#: What makes few messages of the many of one kind: it gets each bucket with the payloads that meet there, one bucket after the other.
Merger = Callable[[Iterator[tuple[int | None, Iterator[bytes]]]], Iterator[Message]]
Mergers = dict[str, Merger]


def merging_each_bucket(kind: str, merge: Callable[[Iterator[Any]], Any]) -> Merger:
    """What makes one message of all those of a bucket; `merge` makes one state of several."""

    def merger(buckets: Iterator[tuple[int | None, Iterator[bytes]]]) -> Iterator[Message]:
        for bucket, payloads in buckets:
            yield Message.of(kind, merge(map(unpack, payloads)), bucket)

    return merger


#: The columns of rows that travel.
BUCKET, KIND, PAYLOAD = Message._fields
# Messages wait for one another until they have so many bytes.
_BATCH_BYTES = 1 << 20
_SCHEMA = pa.schema([(BUCKET, pa.int32()), (KIND, pa.string()), (PAYLOAD, pa.binary())])


def rows_of(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as rows; small ones share a batch."""
    waiting: list[Message] = []
    n_bytes = 0
    for message in messages:
        waiting.append(message)
        n_bytes += len(message.payload)
        if n_bytes >= _BATCH_BYTES:
            yield _batch_of(waiting)
            waiting, n_bytes = [], 0
    if waiting:
        yield _batch_of(waiting)


def _batch_of(messages: list[Message]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([message._asdict() for message in messages], _SCHEMA)


def messages_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """The messages of rows, one at a time."""
    for batch in batches:
        for row in zip(*(batch.column(name) for name in Message._fields), strict=True):
            yield Message(*(value.as_py() for value in row))


def merged_by_bucket(mergers: Mergers, *, sort: bool) -> Run:
    """A function for ``mapInArrow``: what the mergers make of the messages of their kind.

    A partition has all messages of a bucket in the order of kinds and buckets; or in any order, if it is to `sort` them. A bucket that
    comes again is a ValueError, because the engine did not keep the order of rows and figures would be wrong.
    """

    @runs_in_worker
    def run(batches: Batches) -> Batches:
        if sort and (whole := list(batches)):
            order = [(KIND, "ascending"), (BUCKET, "ascending")]
            batches = iter(pa.Table.from_batches(whole).sort_by(order).to_batches())
        met = set()

        def buckets_of(messages: Iterator[Message]) -> Iterator[tuple[int | None, Iterator[bytes]]]:
            for key, some in groupby(messages, key=lambda message: (message.kind, message.bucket)):
                if key in met:
                    msg = "messages are not in the order of their buckets, so the engine cannot run this package"
                    raise ValueError(msg)
                met.add(key)
                yield key[1], (message.payload for message in some)

        for kind, of_kind in groupby(messages_of(batches), key=lambda message: message.kind):
            yield from rows_of(mergers[kind](buckets_of(of_kind)))

    return run


Run = Callable[[Batches], Batches]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

# So many objects take longer to visit than an evaluation should: some milliseconds. Fewer stay young.
_MANY = 50_000

# Some engines run workers as threads of one process. Only one thread at a time runs Python, so to hand Python over at every call of numpy
# takes longer than to compute in turns.
_turn = threading.Lock()
_END = object()


def runs_in_worker(run: Callable[..., R]) -> Callable[..., R]:
    """Decorate a function that Spark calls in a Python worker; the first call prepares the process.

    Between two tasks Spark has the garbage collector visit every object of the process. For numpy, pandas and pyarrow that takes 17 ms
    of processor time, though they are never garbage. `gc.freeze` takes what is loaded by then, above all modules, out of its sight.

    Of several tasks in a process one computes, while others wait for rows or hand rows on.
    """

    @wraps(run)
    def wrapper(*args: Any) -> R:
        _settle()
        # The closure travels to the workers as it is, and no lock does.
        return _run_in_turns(run, args)

    return wrapper


def without_collection(make: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that makes figures or rows by the thousand, and no garbage.

    Python's collector would visit all of them again and again while they are made, and just afterwards, for a third of the time. So it
    pauses. If they are many, they then count among the old objects, which it seldom visits.
    """

    @wraps(make)
    def making(*args: P.args, **kwargs: P.kwargs) -> R:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return make(*args, **kwargs)
        finally:
            if was_enabled:
                if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                    # Without a visit: what thaws is old.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()

    return making


def errors_raised(run: Run) -> Run:
    """A function for ``mapInArrow`` that fails if the engine panics while it computes its rows, and says first what a metric raised.

    Sail takes its own panic for the end of a worker's results, so the rest of the partition would be lost without a word. The message of
    a metric of the caller's own says where it failed, so the way of the error through this package is left out.
    """

    @wraps(run)
    def wrapper(batches: Batches) -> Batches:
        try:
            yield from run(batches)
        except MetricError as error:
            raise error.with_traceback(None) from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            msg = f"the engine panicked while it computed rows for a Python worker: {error}"
            raise RuntimeError(msg) from error

    return wrapper


@cache
def _settle() -> None:
    # Sail's workers are threads of the caller's process, whose garbage is not ours.
    if "pysail" not in sys.modules:
        gc.freeze()


def _run_in_turns(run: Callable[..., R], args: tuple[Any, ...]) -> R:
    with _turn:
        result = run(*(_between_turns(each) if isinstance(each, Iterator) else each for each in args))
    return _one_per_turn(result) if isinstance(result, Iterator) else result  # type: ignore[return-value] # an iterator of the same


def _one_per_turn(items: Iterator[T]) -> Iterator[T]:
    """The items; each is made in a turn, and nothing holds the turn while the caller has it."""
    while True:
        with _turn:
            item = next(items, _END)
        if item is _END:
            return
        yield item  # type: ignore[misc] # not the end


def _between_turns(items: Iterator[T]) -> Iterator[T]:
    """The items for a function that has the turn, which others take while it waits for the next."""
    while True:
        _turn.release()
        try:
            item = next(items, _END)
        finally:
            _turn.acquire()
        if item is _END:
            return
        yield item  # type: ignore[misc] # not the end


def sends_messages(messages: Callable[[Batches], Iterator[Message]]) -> Run:
    """A function for ``mapInArrow`` that sends the messages of another."""

    @runs_in_worker
    def run(batches: Batches) -> Batches:
        yield from rows_of(messages(batches))

    return run


#: The column of packed tables.
PACKED = "packed"
#: No row of a table holds more, and no worker should: a packed table is in the memory of every task.
MOST_BYTES = 2_000_000_000
#: What the errors of larger catalogues and tables begin with.
CATALOGUE_TOO_LARGE = "the items of Vectors are too large for one row"
TABLE_TOO_LARGE = "the facts or groups of items are too large, as each Python worker holds all of them"
# So many rows wait at the most before they are combined.
_WAITING = 1 << 22


def pack_together(
    read: Callable[[pa.RecordBatch], pa.Table],
    combine: Callable[[pa.Table], pa.Table] | None = None,
    most_bytes: int = MOST_BYTES,
) -> Run:
    """A function for ``mapInArrow``: all rows of a partition as one row with a packed table; no row if there is no batch.

    Args:
        read: the rows of a batch.
        combine: makes fewer rows of those of several batches. It may run more than once. None: all rows stay.
        most_bytes: how many bytes a packed table may take.
    """

    @runs_in_worker
    def run(batches: Batches) -> Batches:
        waiting: list[pa.Table] = []
        n_rows = n_bytes = n_combined = 0
        tables = map(read, filter(len, batches))
        for table in tables:
            waiting.append(table)
            n_rows, n_bytes = n_rows + table.num_rows, n_bytes + table.nbytes
            # Twice as many rows as the last time: each row is combined a few times, however many there are.
            if combine is not None and (n_rows > max(_WAITING, 2 * n_combined) or n_bytes > MOST_BYTES):
                waiting = [combine(pa.concat_tables(waiting))]
                n_rows, n_bytes = waiting[0].num_rows, waiting[0].nbytes
                n_combined = n_rows
            if n_bytes > MOST_BYTES:
                # The rest is counted and not kept, so that this worker does not run out of memory. What could be combined is not counted.
                waiting.clear()
                for rest in tables if combine is None else ():
                    n_rows, n_bytes = n_rows + rest.num_rows, n_bytes + rest.nbytes
                raise RuntimeError(_too_large(n_rows, n_bytes, MOST_BYTES))
        if waiting:
            whole = pa.concat_tables(waiting)
            whole = whole if combine is None else combine(whole)
            stream = stream_of(whole, compression="zstd")
            if stream.size > most_bytes:
                raise RuntimeError(_too_large(whole.num_rows, stream.size, most_bytes))
            # Not of Python's bytes, which are a copy.
            offsets = pa.py_buffer(np.array([0, stream.size], np.int32))
            cell = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, stream])
            yield pa.RecordBatch.from_pydict({PACKED: cell})

    return run


def _too_large(n_rows: int, n_bytes: int, most_bytes: int) -> str:
    return (
        f"{TABLE_TOO_LARGE}: at least {n_rows:,} rows take {n_bytes / 1e6:,.0f} MB. {most_bytes / 1e6:,.0f} MB is the limit, some "
        f"{n_rows * most_bytes // n_bytes:,} such rows. Pass only items that predictions or training data have, or shorter vectors "
        "as array<float>"
    )


def stream_of(table: pa.Table, compression: str | None = None) -> pa.Buffer:
    """A table as Arrow's stream of one batch, also if it has no rows."""
    sink = pa.BufferOutputStream()
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def unpacked(packed: pa.Scalar) -> pa.Table:
    """The packed table of a row."""
    return pa.ipc.open_stream(packed.as_buffer()).read_all()


def with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The batch with more columns. Batches of pyarrow 15 have no `append_column`."""
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names=[*batch.schema.names, *columns])


def rows_in(batch: pa.RecordBatch) -> pa.Table:
    """The rows of a batch."""
    return pa.Table.from_batches([batch])


def tables_in(batch: pa.RecordBatch) -> pa.Table:
    """All rows of the packed tables of a batch."""
    return pa.concat_tables(map(unpacked, batch.column(PACKED)))


def received(batches: Batches, names: tuple[str, ...]) -> Iterator[tuple[pa.RecordBatch, dict[str, pa.Scalar]]]:
    """The batches of a task that have rows, the first with what its first row has in those of some columns that there are."""
    for number, batch in enumerate(filter(len, batches)):
        yield batch, {name: batch.column(name)[0] for name in names if number == 0 and name in batch.schema.names}


def attach(cells: Mapping[str, bytes | None]) -> Run:
    """A function for ``mapInArrow``: the rows with a column for each packed table, which the first row of a task has."""

    @runs_in_worker
    def run(batches: Batches) -> Batches:
        for number, batch in enumerate(filter(len, batches)):
            first = {} if number else cells
            values = {name: [first.get(name), *[None] * (batch.num_rows - 1)] for name in cells}
            yield with_columns(batch, {name: pa.array(each, pa.binary()) for name, each in values.items()})

    return run


class RankedView(NamedTuple):
    """A model's lists as a view reads them, once they are ranked."""

    view_index: int  # in the task
    view: View
    batch: RankingBatch
    included: BoolArray  # which users the view is about
    predictions: Side  # as they came
    items: Ragged  # the same, so that they compare with other items


class Ranker(Protocol):
    """A model that ranks items by itself, if its lists do not come as rows or arrays."""

    @property
    def is_rankable(self) -> BoolArray:
        """Which labels are of items that it can rank."""

    def predictions(self) -> Side:
        """The items that metrics look at, as if they had come."""

    def rank(self, view: View, lists: RawLists) -> tuple[RankingBatch, RankingCounts]:
        """The rankings of a view."""

    def counts(self) -> Mapping[str, Array]:
        """Counts of users by name, once a view was ranked; int64 (n_users,) each."""


class BatchFeature:
    """A feature for a batch of users."""

    #: Counts that are the same for every user, by name.
    totals: Mapping[str, int] = {}
    #: What ranks the items of models, by index; the lists of the others come with the users.
    rankers: Mapping[int, Ranker] = {}

    def sides(self) -> Mapping[str, Side]:
        """The users' lists in other tables, by role."""
        return {}

    def compare(self, items: Mapping[str, Ragged], order: Callable[[Array], Array] | None) -> None:
        """Take the items of these lists so that they compare with those of predictions, and their order as of `RawLists`."""

    def label_numbers(self, labels: Side) -> Mapping[str, Array]:
        """Numbers that travel with the labels while they are ranked, by name; float64."""
        return {}

    def lists_of(self, lists: RawLists, view: View) -> RawLists:
        """The lists as a view needs them."""
        return lists

    def included(self, view: View, batch: RankingBatch, users: BoolArray) -> BoolArray:
        """Which users a view is about, if it would be about these without the feature."""
        return users

    def add(self, ranked: RankedView) -> RankingBatch:
        """Take in a view, and give its rankings with what the feature knows of them."""
        return ranked.batch

    def counts(self, labels: Ragged) -> Mapping[str, Array]:
        """Counts of users that the feature adds for a model, by name; int64 (n_users,) each. The labels compare."""
        return {}

    def tables_met(self, model: int) -> set[str]:
        """The tables that are known to have an item of some list of a model."""
        return set()


class ScoredUsers(NamedTuple):
    """The users of a batch on their way to states."""

    batch: pa.RecordBatch
    weights: Array | None  # the users' weights, if a count is
    values: Sequence[Array]  # float64, an array for each metric of the task


class FeatureAccumulator:
    """What a feature adds up over the users of a partition."""

    def add(self, users: ScoredUsers, scores: BatchFeature) -> Iterator[Message]:
        """Take in a batch, with what the feature has of it; gives the messages that had to make room."""
        return iter(())

    def messages(self) -> Iterator[Message]:
        """What is left."""
        return iter(())


class StateContext(NamedTuple):
    """How the users of a task become states."""

    n_values: int  # how many values a user has
    names: CountNames
    options: DescriptionOptions
    keys: tuple[str, ...]  # the columns that divide users into groups
    rollup: Callable[[Key], Iterable[Key]] = lambda key: [key]  # the groups that the users of a key belong to


class Gathered(NamedTuple):
    """What the figures of features are made of."""

    task: ScoringTask
    messages: Sequence[Message]
    totals: Mapping[str, int]  # the counts that all users share
    options: DescriptionOptions


class ScoringFeature(Feature):
    """A feature of a task, as it travels to the workers and as the driver reads their messages."""

    #: The columns that tell groups of its own apart, behind those of users.
    keys: tuple[str, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of items whose groups have figures of their own."""
        return ()

    def tables(self) -> tuple[str, ...]:
        """The columns of packed tables that the first row of a partition may have."""
        return ()

    def with_tables(self, task: ScoringTask, tables: Mapping[str, pa.Scalar]) -> ScoringFeature:
        """The feature for a partition, with what it reads of the tables in the first row; there may be none of its own."""
        return self

    def parts(self, task: ScoringTask, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in parts that fit into memory; no value depends on how it is cut."""
        yield batch

    def read(self, task: ScoringTask, columns: dict[str, pa.Array], labels: Side) -> BatchFeature:
        """What the feature has of a batch of users."""
        return BatchFeature()

    def new_accumulator(self, task: ScoringTask, context: StateContext) -> FeatureAccumulator:
        """What adds up over the users of a partition beside their values."""
        return FeatureAccumulator()

    def mergers(self, options: DescriptionOptions) -> Mergers:
        """What makes few of many messages, by their kinds."""
        return {}

    def figures(self, figures: Mapping[Key, Figures], gathered: Gathered) -> Mapping[Key, Figures]:
        """The figures of all groups with those of the feature."""
        return figures


def features_of(task: ScoringTask) -> list[ScoringFeature]:
    """The features of a task."""
    return [feature for feature in task.features if isinstance(feature, ScoringFeature)]


def with_features(task: ScoringTask, batches: Batches) -> Iterator[tuple[pa.RecordBatch, list[ScoringFeature]]]:
    """The users of a partition in batches that fit into memory, each with the features."""
    features = features_of(task)
    names = dict.fromkeys(name for feature in features for name in feature.tables())
    row_models = [index for index in range(len(task.models)) if index not in task.array_models]
    for batch, tables in received(with_lists_of_models(row_models, batches), tuple(names)):
        if tables:
            features = [feature.with_tables(task, tables) for feature in features]
        parts = iter([batch])
        for feature in features:
            parts = chain.from_iterable(map(partial(feature.parts, task), parts))
        yield from ((part, features) for part in parts)
