"""An engine on which no test has run is refused by every front door if it fails a short trial, unless the caller goes on regardless."""

import inspect
import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from pyspark.errors import AnalysisException

import spark_rankeval as ours
from spark_rankeval import checks, splits, trec
from spark_rankeval.errors import EngineError, SparkRankEvalError, SparkRankEvalWarning
from spark_rankeval.ml import RankingEvaluator
from spark_rankeval.spark import engine as platforms


class Session:
    """A session of Spark Connect whose engine gives prepared answers."""

    def __init__(self, version, client="4.2.0", catalogue="system.session."):
        self.version, self._answer = client, version
        self.catalog = SimpleNamespace(tableExists=lambda name: name.startswith(catalogue))
        self.n_queries = 0

    def sql(self, query):
        self.n_queries += 1
        if query == "SELECT version() AS version":
            return SimpleNamespace(collect=lambda: [{"version": self._answer}])
        assert query == checks._TRIAL
        rows = SimpleNamespace(collect=lambda: self.parts)
        return SimpleNamespace(repartition=lambda *_: SimpleNamespace(mapInArrow=lambda *_: rows))

    parts = ()


Session.__module__ = "pyspark.sql.connect.session"


class DataFrame:
    """A table that tells nothing but its session."""

    isStreaming, columns = False, ()  # noqa: N815 # as Spark's

    def __init__(self, session):
        self.sparkSession = session


DataFrame.__module__ = "pyspark.sql.connect.dataframe"

DOORS = {
    "agreement": lambda table: ours.agreement(table, table),
    "all_pairs": lambda table: ours.all_pairs({"a": table, "b": table}),
    "audit": lambda table: ours.audit(table, table),
    "compare": lambda table: ours.compare({"a": table, "b": table}, "a"),
    "compare_groups": lambda table: ours.compare_groups(table, "a", group="group"),
    "dialect_map": lambda table: ours.dialect_map(table, table, "rr"),
    "differences": lambda table: ours.differences({"a": table, "b": table}, "a"),
    "evaluate": lambda table: ours.evaluate(table, table, "rr"),
    "funnel": lambda table: ours.funnel({"a": table, "b": table}, table, [2, 1]),
    "history": ours.history,
    "judge_agreement": lambda table: ours.judge_agreement(table, ["human", "llm"]),
    "labels_of_spans": lambda table: ours.labels_of_spans(table, table),
    "merge": ours.merge,
    "popularity": ours.popularity,
    "quarantine": lambda table: ours.quarantine(table, table, "rr"),
    "roll_up": lambda table: ours.roll_up(table, "document"),
    "score_users": lambda table: ours.score_users(table, table, "rr"),
    "summarise": ours.summarise,
    "summary_table": ours.summary_table,
    "to_label": lambda table: ours.to_label(table, table, "rr", relevance=ours.Judged(human="human", judge="llm")),
    "top_items": lambda table: ours.top_items(ours.Vectors(table, table), 5),
    "write_per_user": lambda table: ours.write_per_user(table, "/nowhere"),
    "write_table": lambda table: ours.write_table(table, "metrics"),
    "by_time": lambda table: splits.by_time(table, 5),
    "last_n": splits.last_n,
    "evaluate_runs": lambda table: trec.evaluate_runs(table, table, []),
    "read_beir": lambda table: trec.read_beir(table.sparkSession, "/nowhere"),
    "read_mteb": lambda table: trec.read_mteb(table.sparkSession, "/nowhere"),
    "read_qrels": lambda table: trec.read_qrels(table.sparkSession, "/nowhere"),
    "read_run": lambda table: trec.read_run(table.sparkSession, "/nowhere"),
    "read_sentence_transformers": lambda table: trec.read_sentence_transformers(table.sparkSession, "/nowhere"),
    "write_run": lambda table: trec.write_run(table, "/nowhere"),
    "RankingEvaluator.evaluate": lambda table: RankingEvaluator().evaluate(table),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_front_door_refuses_an_untested_engine(door):
    with pytest.raises(
        EngineError, match=r"runs on Sail 0\.8\.1, on which no test of this package has run, and in a short trial"
    ):
        DOORS[door](DataFrame(Session("0.8.1")))


def test_a_column_of_metrics_asks_the_active_session(monkeypatch):
    monkeypatch.setattr(platforms.SparkSession, "getActiveSession", lambda: Session("0.8.1"))
    with pytest.raises(EngineError, match=r"Sail 0\.8\.1"):
        platforms.pandas_function(len, "value double")


def test_these_are_all_front_doors():
    """Whatever takes a table or a session, but `progress`, which only draws."""
    functions = {
        name: function
        for module in (ours, splits, trec)
        for name in module.__all__
        if inspect.isfunction(function := getattr(module, name))
    }
    doors = {
        name
        for name, function in functions.items()
        for argument in inspect.signature(function).parameters.values()
        if re.search(r"\b(Table|DataFrame|Predictions|Results|SparkSession|Column)\b", str(argument.annotation))
    }
    assert doors - {"progress", "metrics_column"} <= DOORS.keys()
    assert len(doors) > 15


REVISION = " 0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("session", "engine"),
    [
        (Session("0.7.2"), ("Sail", "0.7.2")),
        (Session(f"4.2.0{REVISION}", catalogue="spark_catalog"), ("Spark", "4.2.0")),
        *(
            (Session(f"3.5.6{REVISION}", version, "spark_catalog"), ("Spark", version))
            for version in ("3.5.6-amzn-1", "3.5.6-cloudera", "3.5.6-SNAPSHOT", "3.5.6-preview1", "3.5.6.1")
        ),
        (Session(f"3.5.6{REVISION}", "3.5.60"), None),
        (Session("4.2.0 0123abc"), None),
        (Session("0.7.3"), None),
        (Session("0.7.31"), None),
        (Session("4.2.0"), None),
        (Session("7.1", catalogue="other"), None),
    ],
    ids=lambda value: f"{value.version} {value._answer[:8]}" if isinstance(value, Session) else None,
)
def test_engines_are_known_by_what_they_say(session, engine):
    if engine is None:
        with pytest.raises(EngineError):
            checks.tested_engine(session)
        return
    assert [checks.tested_engine(session), checks.tested_engine(session)] == [engine] * 2
    assert session.n_queries == 1


WELL = {"users": [0, 1, 2, 3, 4], "n_nan": 1, "n_lists": 20, "hashes": [checks._HASH_OF_0]}
TRIALS = {
    "the rows of a user came in several partitions": [
        WELL,
        {**WELL, "users": [4], "n_nan": 0, "n_lists": 0, "hashes": []},
    ],
    "NaN came as another value": [{**WELL, "n_nan": 0}],
    "lists came as other values": [{**WELL, "n_lists": 19}],
    "hashes differ from Spark's": [{**WELL, "hashes": [7]}],
}


@pytest.mark.parametrize("problem", TRIALS)
def test_an_engine_that_fails_a_trial_is_refused_and_one_that_passes_is_warned_of(problem):
    session = Session("9.1", catalogue="other")
    session.parts = TRIALS[problem]
    with pytest.raises(EngineError, match=f"an unknown engine 9.1, .* short trial {problem}.*{checks.UNTESTED}=allow"):
        checks.tested_engine(session)
    session.parts = [WELL]
    with pytest.warns(SparkRankEvalWarning, match=r"^the session runs on an unknown engine 9\.1, .* went well$"):
        assert checks.tested_engine(session) == ("an unknown engine", "9.1")


class Table:
    """A table that reads from a file as some rows, some of them NaN; without rows it cannot be read."""

    def __init__(self, rows):
        self.count = rows.__len__
        self.coalesce = self.parquet = lambda *_: self
        self.write = self.read = self
        self.createDataFrame = lambda *_: self if rows is not UNREADABLE else _refuse()
        self.where = lambda _: Table([row for row in rows if row == "NaN"])


def _refuse():
    raise AnalysisException("no such place")


UNREADABLE = ()


@pytest.mark.parametrize(("rows", "outcome"), [
    (("1.0", "NaN"), nullcontext()),
    (("1.0", "1.0"), pytest.raises(EngineError, match=r"^Sail reads NaN in files as other values")),
    # What one process has written, another does not see.
    ([], pytest.warns(SparkRankEvalWarning, match=r"^whether Sail reads NaN in files as NaN could not be tried")),
    (UNREADABLE, pytest.warns(SparkRankEvalWarning, match=r"could not be tried; make sure .*COLLECT_STATISTICS=false")),
])  # fmt: skip
def test_an_engine_whose_nan_cannot_be_tried_is_warned_of(rows, outcome, monkeypatch):
    monkeypatch.setattr(platforms.F, "isnan", lambda name: name)
    with outcome:
        platforms._check_nan(Table(rows), "Sail")


def test_the_caller_may_go_on_regardless(monkeypatch):
    session = Session("9.1", catalogue="other")
    monkeypatch.setenv(checks.UNTESTED, "yes")
    with pytest.raises(SparkRankEvalError):
        checks.tested_engine(session)
    monkeypatch.setenv(checks.UNTESTED, "allow")
    assert checks.tested_engine(session) == ("an unknown engine", "9.1")
