"""The result of an evaluation: means by name, tables, charts, files, and every user's values."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from spark_rankeval.checks import check_name, one_of
from spark_rankeval.errors import USER, InputError, uses_own_unit
from spark_rankeval.evaluation.bad_rows import warn_if_changed
from spark_rankeval.evaluation.slice_gaps import Gaps, gaps_of
from spark_rankeval.metrics.base import Metric
from spark_rankeval.records.chart_rows import CurveAxis, curve_of, recall_curve
from spark_rankeval.records.cross_table import CrossTable, Dimension, cross_table, result_on_screen
from spark_rankeval.records.judge_estimates import JudgedMeans, judged_means
from spark_rankeval.records.judged_rows import with_unit
from spark_rankeval.records.notes import kept_notes_of_tables, notes_of
from spark_rankeval.records.quality import DataQuality
from spark_rankeval.records.selection import Lookup, Metrics, Name, by_slice, chosen, headline_keys
from spark_rankeval.records.side_by_side import Compared, MapRow, ModelsTable, models_table
from spark_rankeval.records.slices import ItemGroup
from spark_rankeval.records.stored import (
    READ_BACK,
    fingerprints_of,
    metrics_record,
    read_stored,
    read_text,
    render_models,
    stored_values,
)
from spark_rankeval.records.summary import SummaryRow, summary_on_paper
from spark_rankeval.records.table_columns import METRICS, SUMMARY, TIME
from spark_rankeval.report import Gate
from spark_rankeval.report.contents import Audited, ReportedComparison, checked_path, text_of, write_page, write_report
from spark_rankeval.report.result_charts import ResultPlots
from spark_rankeval.spark.per_user import PerUserSchema, queries_of, totals_of, users_by_value
from spark_rankeval.spark.record_tables import table_of
from spark_rankeval.table_writers import Shown, as_latex
from spark_rankeval.tables import Document

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, eq=False, repr=False)
class Result(Shown):
    """The result of an evaluation. It prints as a table.

    Examples:
        >>> result["personal", "rr"], result["personal", "rr", "country=DE"]
        (0.875, 1.0)
        >>> result.models, result.keys()
        (['popular', 'personal'], ['rr', 'recall@1', 'recall@2', 'recall@3'])
        >>> result.to_pandas()[["model", "slice", "metric", "mean", "n_users"]].head(3).round(3)
             model slice    metric   mean  n_users
        0  popular   all        rr  0.458        8
        1  popular   all  recall@1  0.250        8
        2  popular   all  recall@2  0.500        8

    Attributes:
        summary: a row for each metric, in the order asked for.
        qualities: what the users and their rows were like, by model (an unnamed model has an empty name). Empty if unknown, as for a
            table of metrics.
        columns: the name of each row's column in the per-user table, by the row's key.
        plan: how the data was brought together, in sentences.
        notes: what the figures could be mistaken for, in sentences that are printed below them.
        item_groups: the groups of items that have figures, with their sizes, and the edges of groups by popularity.
        unit: the word for what lists are for, which tables, charts and pages use.
    """

    summary: tuple[SummaryRow, ...]
    qualities: dict[str, DataQuality]
    columns: dict[str, str]
    plan: tuple[str, ...]
    _table: Callable[[], DataFrame]
    _write: Callable[[DataFrame, Mapping[str, Any]], Result]
    _rejected: Callable[[], DataFrame] | None = None
    notes: tuple[str, ...] = ()
    item_groups: tuple[ItemGroup, ...] = ()
    unit: str = USER
    _group_table: Callable[[], DataFrame] | None = None

    @cached_property
    def per_user(self) -> DataFrame:
        """Every user's values as a lazy DataFrame: the user's columns, a double for each metric (NaN: undefined) and counts.

        Unless it was written, each use reads the data again. If the data differs by then, so do the values, and a lazy table cannot say
        so; `write` compares fingerprints, and warns.

        Spark's aggregates are NaN if one user's value is. To leave such users out, as the summary does, write
        ``F.avg(F.nanvl("ndcg_at_10", F.lit(None)))``.
        """
        table = self._table()
        return PerUserSchema.read(table).with_valid_users(table)

    @cached_property
    def per_item_group(self) -> DataFrame:
        """Every user's values in every group of items where the user has a label, as a lazy DataFrame in the long form.

        It has the user's columns and those of `by`, ``item_attribute``, ``item_group``, and a double for each metric that groups have.
        If shares of groups were asked for, it has a row for every user and group.

        Raises:
            InputError: the evaluation has no groups of items, or the result was read back or summarised from a table.
        """
        if self._group_table is None:
            msg = "only the result of evaluate(…, facts=Facts(items=…, item_by=…)) has values by group of items"
            raise InputError(msg)
        return self._group_table()

    @cached_property
    def quarantine(self) -> DataFrame:
        """The rows that were not ranked, as a lazy DataFrame that reads the data again when it is used.

        It has a row for each rejected row or array entry: ``table`` (predictions, labels, users), ``model`` if models have names, the
        user's columns, ``item``, the columns of scores, ranks and grades, and ``reason``. If a user has several rows of arrays, each
        rejected one is one row. Predictions left out by ``exclude=`` and labels merged with an equal one are not rejected.

        Raises:
            InputError: the result comes from a per-user table, which lacks these rows; or two columns would have the same name.
        """
        if self._rejected is None:
            msg = "a per-user table counts rejected rows but does not hold them; use evaluate(…).quarantine, or quarantine(…)"
            raise InputError(msg)
        return self._rejected()

    @cached_property
    def judged(self) -> JudgedMeans:
        """What the grades of people and of a model say together, and each alone, for each model, slice and metric.

        Raises:
            InputError: the grades were not those of `Judged`.
        """
        judged = judged_means(self.summary, self.unit)
        if judged is None:
            msg = "only evaluate(…, relevance=Judged(human=…, judge=…)) estimates means from two judges"
            raise InputError(msg)
        return judged

    @property
    def data_quality(self) -> DataQuality:
        """What the users and their rows were like. Of several models, counts that depend on predictions are added up.

        Raises:
            InputError: the result was merged from a table of metrics, which has no such counts.
        """
        if not self.qualities:
            msg = (
                "a table of metrics does not describe its data; merge results, or pass merge the manifests of the runs"
            )
            raise InputError(msg)
        return DataQuality.sum_of_models(list(self.qualities.values()))

    @property
    def fingerprints(self) -> dict[str, str]:
        """A fingerprint of each table that was read: 32 hexadecimal digits that change if any row changes.

        Keys are ``predictions`` and ``labels``, and if they were given, ``users``, ``exclude`` and ``attributes``. Each of several models
        has its own, such as ``predictions of als``. The order of rows and columns, partitions and the width of numbers do not matter.
        docs/same_tables.md says which rows and columns count. Empty if not known, as for results of an earlier version.

        Examples:
            >>> sorted(result.fingerprints), len(result.fingerprints["labels"])
            (['attributes', 'labels', 'predictions of personal', 'predictions of popular'], 32)
        """
        return fingerprints_of(self.summary)

    @property
    def models(self) -> list[str]:
        """The names of the models; an unnamed model has an empty name."""
        return list(self.qualities) or list(dict.fromkeys(row.model for row in self.summary))

    def __getitem__(self, name: Name) -> float:
        """The mean of a metric, by its label, an alias, a metric object or the name of its column.

        Of several models, write ``result["als", "ndcg@10"]``; of a slice ``result["ndcg@10", "country=DE"]``, or
        ``result["als", "ndcg@10", "country=DE"]``. Raises `UnknownMetricError` unless exactly one row matches.
        """
        return self._lookup.row(name).mean

    @property
    def _lookup(self) -> Lookup:
        return Lookup(self.summary, self.columns, self.models)

    def keys(self) -> list[str]:
        """The labels of the metrics, in the order asked for. With several models, each label occurs once."""
        return list(dict.fromkeys(row.key for row in self.summary))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | Metric | tuple) and len(self._lookup.rows(name)) == 1

    def to_pandas(self) -> pd.DataFrame:
        """The summary as a pandas DataFrame: a row for each metric, the columns of `SummaryRow`, and a column for each quantile."""
        frame = pd.DataFrame([row.record() for row in self.summary])
        return frame.astype({"cutoff": "Int64"})

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The summary as a Spark DataFrame, for joins, dashboards and `display`: the columns of `to_pandas`, but quantiles as a map.

        docs/tables.md lists the columns. Their meanings are comments in the metadata.

        Examples:
            >>> result.to_spark().where("slice = 'all' AND metric = 'rr'").select("model", "mean", "n_users").toPandas().round(3)
                  model   mean  n_users
            0   popular  0.458        8
            1  personal  0.875        8

        Args:
            spark: the session. None: the active one, or that of the table of users.

        Raises:
            InputError: there is no session.
        """
        return table_of((row.shown() for row in self.summary), SUMMARY, spark, lambda: self._table().sparkSession)

    def to_stored(self, time: datetime, spark: SparkSession | None = None) -> DataFrame:
        """The rows as jobs store them, and what `history` and `merge` need: the columns of ``metrics`` in docs/tables.md.

        Args:
            time: when the run began.
            spark: as in `to_spark`.
        """
        records = ({**metrics_record(row), TIME: time} for row in self.summary)
        return table_of(records, METRICS, spark, lambda: self._table().sparkSession)

    @property
    def slices(self) -> pd.DataFrame:
        """The rows of `to_pandas` that are about slices of the users."""
        frame = self.to_pandas()
        return frame[frame["slice"] != "all"].reset_index(drop=True)

    def with_slices(self, **order: Sequence[Any]) -> Result:
        """The same result with its slices in another order, in all tables, charts and pages.

        ``result.with_slices(activity=["light", "medium", "heavy"])``

        Args:
            order: for each attribute, its values in the order to show them. Values that are not named come last.

        Raises:
            OptionError: no slice has such an attribute or value.
        """
        return replace(self, summary=by_slice(self.summary, order))

    def gaps(
        self, attribute: str | Sequence[str], *, metrics: Metrics = None, level: float = 0.95, margin: float = 0.0,
        min_users: int = 2,
    ) -> Gaps:  # fmt: skip
        """Find the largest gap between slices of an attribute, and compare each slice with all other users.

        It uses the sums of the slices, without a look at the users. Slices have different users, so each comparison is a Welch
        test (Biometrika 1947). The interval of the largest gap also holds for the pair with the largest difference of all pairs
        (Games and Howell 1976). With rare or equal values, the Clopper-Pearson intervals of both means replace the variances.

        Args:
            attribute: one or more of the attributes in `by`. Slices that also have others are added up.
            metrics: the metrics to compare. None: all, but of a curve with many points only some usual cutoffs. Of two judges only what
                each says alone is compared, because no user has a value that both estimate.
            level: the confidence level of the intervals.
            margin: the largest difference that does not matter, in the metric's units.
            min_users: slices with fewer users have no part in the largest gap.

        Raises:
            InputError: no slice has such an attribute.
            OptionError: an option is not valid.
            UnknownMetricError: a metric is not in the result.
        """
        gaps = gaps_of(self.summary, attribute, metrics, level, margin, min_users)
        return replace(gaps, rows=with_unit(gaps.rows, self.unit), unit=self.unit)

    def _total_rows(self) -> list[SummaryRow]:
        return [row for row in self.summary if row.slice == "all"]

    def curve(self, metric: str | Metric, over: CurveAxis = "cutoff") -> pd.DataFrame:
        """A metric against its cutoff, ready to plot: a row for each model, relevance and cutoff; rows without a cutoff come last.

        A range asks for many cutoffs at once: ``evaluate(…, ["ndcg@1..100"])``, then ``result.curve("ndcg")``. The columns are
        model, relevance, cutoff, mean, standard_error, n_users.

        Curves over scores or budgets need a metric for each point: ``[f"precision(min_score={score})" for score in scores]``. Then
        ``result.curve("precision", over="score")`` has a column ``score`` in the place of ``cutoff``.

        Args:
            metric: the metric without its cutoff; with another `over`, as ``"precision@10"``. A parameter that you leave out may have any
                value, the same in all rows.
            over: what the points differ in: ``cutoff``, ``score`` or ``budget``.

        Raises:
            UnknownMetricError: no row has that metric, or its rows have several definitions.
        """
        return curve_of(self._total_rows(), metric, over)

    def precision_recall_curve(self) -> pd.DataFrame:
        """Interpolated precision against recall, ready to plot: a row for each model, relevance and recall.

        ``evaluate(…, ["precision_recall_curve"])`` asks for it: 101 recalls, averaged over users. The columns are model,
        relevance, recall, mean, standard_error, n_users.

        Raises:
            UnknownMetricError: no row has ``iprec``, or its rows have several definitions.
        """
        return recall_curve(self._total_rows())

    @property
    def plot(self) -> ResultPlots:
        """Charts of the result, as Altair objects; needs the extra ``report``.

        ``result.plot()`` draws all means, ``result.plot("ndcg@10")`` the models side by side. ``result.plot("ndcg")`` draws the curve
        against the cutoff. `ResultPlots` has the charts by name, such as ``result.plot.slices("ndcg@10")``.
        """
        return ResultPlots(
            self.summary, self.columns, self.models, lambda column, grid: users_by_value(self.per_user, column, grid),
            unit=self.unit,
        )  # fmt: skip

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        comparison: ReportedComparison | None = None,
        title: str | None = None,
        gates: Sequence[Gate] = (),
        audit: Audited | None = None,
        dialects: Iterable[MapRow] = (),
        distributions: Sequence[str] = (),
        manifest: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the result as one HTML file that opens offline and has no scripts, and return its path; needs the extra ``report``.

        Args:
            path: a file on this machine. An existing file is replaced in one step, so it is never half written.
            comparison: the result of `compare` for these models; its verdicts, differences and slices get a section.
            title: the title of the page. None: one that names the models.
            gates: the conditions that the run had to meet; they come first on the page.
            audit: the result of `audit` for these tables; its verdict and counts get a section.
            dialects: the ``rows`` of a `dialect_map`.
            distributions: metrics to draw as histograms of their users. Each aggregates `per_user` and the comparison's differences:
                on a fresh result that is another evaluation, on a written one a look at a column. Without any, the page draws the
                quantiles of the summary.
            manifest: what else belongs to the record of the run, such as versions, configuration, inputs and seed: values by name, or
                mappings of such, which become a table each.

        Raises:
            MissingExtraError: Altair, Jinja2 or vl-convert is not installed.
            OptionError: the path has no folder on this machine, or the comparison does not come from `compare`, or the audit not from
                `audit`.
            UnknownMetricError: a metric of `distributions` is not in the result.
        """
        models = ", ".join(filter(None, self.models))
        return write_report(
            path,
            unit=self.unit,
            title=title or (f"Evaluation of {models}" if models else "Evaluation of a ranking"),
            summary=self.summary,
            qualities=self.qualities,
            plan=self.plan,
            notes=self.notes,
            item_groups=self.item_groups,
            plots=replace(self.plot, notes=False),
            comparison=comparison,
            gates=tuple(gates),
            audit=audit,
            dialects=tuple(dialects),
            distributions=(distributions,) if isinstance(distributions, str) else tuple(distributions),
            manifest={**({"fingerprints": self.fingerprints} if self.fingerprints else {}), **(manifest or {})},
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values that `from_dict` reads; NaN becomes None. The plan is not among them."""
        return stored_values(self.summary, self.columns, self.qualities, self.notes, self.item_groups, self.unit)

    def to_json(self, indent: int | None = 2) -> str:
        """The figures as JSON that `from_json` reads; NaN becomes null."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Result:
        """Read what `to_dict` returned, or a job's manifest. The result has no users' values: its `per_user` raises.

        Raises:
            InputError: it is neither.
        """
        return cls(**read_stored(told)._asdict(), _table=READ_BACK, _write=READ_BACK)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what `to_json` returned, as `from_dict` does; any other text raises `InputError`."""
        return cls.from_dict(read_text(text))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything except tables to a JSON file, which `load` reads, and return its path. `write` stores the users' values.

        Args:
            path: a file on this machine. An existing file is replaced in one step, so it is never half written.

        Raises:
            OptionError: nothing can be written there.
        """
        return write_page(checked_path(path, "result"), self._as_text(), "result")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a result that `save` wrote. It has no users' values: its `per_user` raises.

        Raises:
            InputError: the file holds no result.
            OptionError: the file cannot be read.
        """
        return cls.from_json(text_of(path, "result"))

    def __reduce__(self) -> tuple[Callable[[str], Result], tuple[str]]:
        # Tables belong to a session, so a pickle holds what `save` writes.
        return Result.from_json, (self._as_text(),)

    def _as_text(self) -> str:
        return json.dumps({"plan": self.plan, **self.to_dict()}, indent=2, ensure_ascii=False, allow_nan=False)

    def __copy__(self) -> Result:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Result:
        return self

    def explain(self) -> str:
        """Say in words how each number is defined, what it could be mistaken for, and how the data was brought together."""
        definitions = {row.name: row.definition for row in self.summary}
        width = max(map(len, definitions))
        lines = [f"{key.ljust(width)}  {text}" for key, text in definitions.items()]
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([*lines, *notes, "", *self.plan])

    def write(
        self,
        path: str | os.PathLike[str] | None = None,
        mode: str = "errorifexists",
        *,
        table: str | None = None,
        run_id: str | None = None,
    ) -> Result:
        """Write the per-user table: to a staging place beside its place first, and published only if it is valid.

        Returns the result of what was written; its `per_user` reads the stored table. `write_table` writes the means.

        Args:
            path: where to write the table as Parquet; any path that Spark can write to.
            mode: what to do if the table exists: ``errorifexists`` or ``overwrite``.
            table: instead of a path, the name of a table of the catalogue, as in `write_per_user`.
            run_id: the run whose rows of that table it replaces, as in `write_per_user`.

        Raises:
            DataError: the written rows are not valid, so nothing was published.
            OptionError: the path or the table exists already, or the table cannot take such rows; nothing was computed.
        """
        written = self._write(self._table(), {"path": path, "mode": mode, "table": table, "run_id": run_id})
        warn_if_changed(self.fingerprints, written.fingerprints, "the table that was written")
        # The per-user table does not hold the values by other definitions.
        means = {(row.model, row.slice, row.key): row.standard_mean for row in self.summary}
        summary = tuple(
            replace(row, standard_mean=means.get((row.model, row.slice, row.key), row.standard_mean))
            for row in written.summary
        )
        return replace(
            written, summary=summary, notes=self.notes, item_groups=self.item_groups, _rejected=self._rejected,
            _group_table=self._group_table,
        )  # fmt: skip

    def models_table(self, comparison: Compared | None = None, *, metrics: Metrics = None) -> ModelsTable:
        """Show several models in one table: a row for each model, a column for each metric, the best of each column marked.

        The table prints as text and is HTML in a notebook. It has `to_markdown()`, `to_latex(caption=…, label=…)` and `to_pandas()`.

        Args:
            comparison: the result of `compare` or `all_pairs` for these models. Letters then mark means that are significantly better
                than those of other models.
            metrics: the metrics to show. None: all, but of a curve with many points only some usual cutoffs.

        Raises:
            OptionError: `metrics` is empty.
            UnknownMetricError: a metric is not in the result.
            InputError: the comparison is of other models, or of none of these metrics.
        """
        total_rows = self._total_rows()
        rows = chosen(total_rows, headline_keys(total_rows) if metrics is None else metrics)
        compared = None if comparison is None else comparison.rows
        notes = (*notes_of(rows), *kept_notes_of_tables(self.notes)) if self.notes else ()
        made = models_table(rows, self.models, compared, notes)
        return replace(made, unit=self.unit)

    def table(
        self,
        rows: Dimension = "metric",
        columns: Dimension = "model",
        *,
        metrics: Metrics = None,
        model: str | None = None,
        slice: str | None = None,
        group: str | None = None,
        intervals: bool | None = None,
    ) -> CrossTable:
        """Show the means in a table of any two of model, metric, cutoff, slice of users and group of items.

        The table prints as text and is HTML in a notebook. It has `to_markdown()`, `to_latex(caption=…, label=…)` and `to_pandas()`.

        Examples:
            >>> print(result.table("model", "cutoff", metrics="recall", intervals=False))
            Means over users: recall, dialect 'default'
            model     users        1        2        3
            popular       8  0.2500   0.5000   0.7500
            personal      8  0.7500*  1.0000*  1.0000*
            *  the best mean of its column; compare tests whether the lead is decided
            other slices: 'country=DE' and 'country=FR'; slice=… shows one

        Args:
            rows: what the rows are: ``model``, ``metric``, ``cutoff``, ``slice`` or ``group``.
            columns: what the columns are.
            metrics: the metrics to show. None: those that one shows first; if neither rows nor columns are metrics, the first one. With
                cutoffs, also metrics without their cutoff, such as ``ndcg``.
            model: the model of all cells, if models are neither rows nor columns. None: the first.
            slice: likewise the slice, such as ``country=DE``. None: all users.
            group: likewise the group of items. None: all items.
            intervals: whether cells show the intervals of their means. None: if there are at most three columns.

        Raises:
            OptionError: a dimension, a model, a slice or a group does not exist, or `metrics` is empty.
            UnknownMetricError: a metric is not in the result.
        """
        common: dict[Dimension, str | None] = {"model": model, "slice": slice, "group": group}
        return replace(cross_table(self.summary, rows, columns, metrics, common, intervals), unit=self.unit)

    @uses_own_unit
    def to_latex(self) -> str:
        r"""The summary as a LaTeX ``tabular`` for each model and slice; it needs the package ``booktabs``."""
        return as_latex(self._on_paper())

    def to_trec(self, *, per_query: bool = False, runid: str | None = None) -> str:
        """The means as trec_eval prints them: a line for each measure, with its name there if it is defined as there.

        ``num_ret``, ``num_rel`` and ``num_rel_ret`` are sums over `per_user`. On a fresh result that is another evaluation, on a written
        one a look at some columns. ``num_rel_ret`` needs precision or recall of whole lists, or with a cutoff that no list exceeds. A
        metric that trec_eval lacks, or defines differently, keeps its own label and comes last.

        Args:
            per_query: whether the lines of every query come first, as ``trec_eval -q`` prints them. This collects them on the driver.
            runid: the name of the run. None: the model's name, or no such line if the model has none.

        Raises:
            InputError: the per-user table has no user column, or lacks the counts of users.
        """
        one_of("per_query", per_query, (True, False))
        check_name("runid", runid)
        rows = self._total_rows()
        first = [row for row in rows if row.model == rows[0].model]
        totals = totals_of(self.per_user, first, self.columns)
        queries = queries_of(self.per_user, first, self.columns) if per_query else {}
        return render_models(rows, self.models, totals, queries, runid)

    def _on_paper(self) -> Document:
        return summary_on_paper(self.summary, self.notes)

    def _on_screen(self) -> Document:
        return result_on_screen(self.summary, self.qualities, self.notes)
