"""A case's figures from the worker, without Spark: its batches are run task by task, and states meet as they do on their way to the driver.

With `rows.py` the only file here that knows the package's insides. `figures_of` gives strings by public names.
"""

import hashlib
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from unittest import mock

import pyarrow as pa
from helpers.scored import with_features

from spark_rankeval.comparison.compare_models import paired_merger
from spark_rankeval.comparison.comparison_inputs import ComparedMetric
from spark_rankeval.comparison.rows import AgainstBaseline, PairClusters, pair_rows, rolled
from spark_rankeval.experiments.covariates import GroupSumAccumulator, group_batches, layout_of_groups
from spark_rankeval.experiments.group_comparison import ClustersOfGroups, GroupTest, compared_group, group_rows
from spark_rankeval.features.item_groups.group_rankings import ATTRIBUTE_KEY, GROUP_KEY
from spark_rankeval.features.item_groups.worker import score_pairs
from spark_rankeval.metrics.naming import parse_metrics
from spark_rankeval.ranking.recommended import FACT_TABLES
from spark_rankeval.records.slices import (
    is_of_all,
    item_attribute,
    item_groups_in,
    rollup,
    rollup_with_items,
    slice_name,
)
from spark_rankeval.request.availability import Lists
from spark_rankeval.request.counts import CountNames, Overlap
from spark_rankeval.request.options import ItemGroups, ScoringOptions
from spark_rankeval.request.readings import read_request
from spark_rankeval.request.task import GROUP_FACTS, counts_of_models, user_counts
from spark_rankeval.spark import describing
from spark_rankeval.spark.describing import Groups, figures_by_group
from spark_rankeval.spark.scoring import totals_in
from spark_rankeval.statistics.description import DescriptionOptions
from spark_rankeval.wire import merged_by_bucket, messages_of, rows_of
from spark_rankeval.worker import compared_users, grouped_row
from spark_rankeval.worker.clusters import ClusterLayout, ClusterMerger, merged_clusters
from spark_rankeval.worker.compared_users import ComparisonStates, hash_field
from spark_rankeval.worker.comparing import (
    COMPARISON,
    all_pairs_batches,
    merging_comparisons,
    paired_batches,
    paired_layout,
)
from spark_rankeval.worker.grouped_row import slice_column
from spark_rankeval.worker.scored_features import Gathered, features_of
from spark_rankeval.worker.states import merging_states, state_of_batches, state_of_columns
from spark_rankeval.worker.user_metrics import MODEL, count_names, count_of_model, score_batches

from .rows import Rows

ATTRIBUTES = ["country", "device"]
#: Per-user tables of more rows are stored as a digest.
MOST_ROWS = 80


def figures_of(case, world):
    """All figures of a case: of users, of slices, of groups of items and of comparisons."""
    run = _Run(case, world)
    per_user = [list(run.score(iter(task))) for task in run.rows.whole]
    figures = {
        "users": _columns_shown(chain.from_iterable(per_user), run.spelled),
        "slices": run.shown(run.described()),
    }
    if case.get("stored"):
        figures["stored"] = run.shown(run.summarised(per_user))
    if run.items:
        score = score_pairs(run.task, (grouped_row.USER_HASH,), run.columns)
        figures["users of groups"] = _columns_shown(chain.from_iterable(score(iter(task)) for task in run.rows.whole))
    of_kind = {"compare": run.compare, "all_pairs": run.all_pairs, "groups": run.compare_groups}
    return figures | {kind: compared(per_user, **case[kind]) for kind, compared in of_kind.items() if kind in case}


def _request(case):
    """What a case asks for, as `evaluate` reads it."""
    scoring = ("dialect", "ties", "on_invalid", "population", "relevance_threshold")
    options = ScoringOptions(**{name: case[name] for name in scoring if name in case})
    grades = tuple(f"grade{place}" for place in range(case["relevances"]))
    lists = Lists(
        case.get("arrays") == "scored",
        "label_arrays" in case,
        grades,
        ("weight",) if "weight" in case else (),
        prediction_columns=("cost",) if "cost" in case else (),
        has_no_answer="no_answer" in case,
    )
    asked, models = parse_metrics(case["metrics"]), case.get("models", [""])
    array_models = range(len(models)) if "arrays" in case else ()
    request = read_request(asked, options, lists, models, array_models=array_models, users_alone=False).with_standards()
    tables = sorted({table for fact in request.task.facts - {"intents"} for table in FACT_TABLES[fact]})
    overlaps = [("labels", "items"), *((table, "items") for table in tables)]
    overlaps += [("exclude", kind) for kind in ("users", "items") if "exclude" in case]
    groups = ItemGroups(tuple(case.get("item_by", ())), case.get("popularity_groups"))
    task = replace(
        request.task, overlaps=tuple(Overlap(*each) for each in overlaps), has_subtopic_rows="subtopic" in case,
        weight_count=weight if isinstance(weight := case.get("user_weight"), str) else "",
    )  # fmt: skip
    groups = groups if groups.attributes else None
    task = with_features(task, tuple(case.get("vectors", ())), groups, has_no_answer="no_answer" in case)
    return replace(request, task=task)


class _Run:
    """A case with its task, its rows, and what its values are called."""

    def __init__(self, case, world):
        self.case, request = case, _request(case)
        self.values, self.task = request.values, request.task
        self.rows = Rows(case, world, self.task)
        self.names = [" ".join(filter(None, value.key[::-1])) for value in self.values]
        self.names += [" ".join([*filter(None, value.key[::-1]), "(standard)"]) for value in request.standard_values]
        self.columns = tuple(f"v{place}" for place in range(len(self.values) // len(self.task.models)))
        self.spelled = {
            name: " ".join(filter(None, value.key[:0:-1]))
            for name, value in zip(self.columns, self.values, strict=False)
        }
        models = [grouped_row.column_of_model("predictions", model) for model in range(len(self.task.models))]
        others = {"labels": True, "exclude": "exclude" in case, "attributes": self.rows.has_attributes}
        others["no_answer"] = "no_answer" in case
        others |= {table: table in self.rows.tables for table in ("training", "items", "baseline")}
        self.others = tuple(table for table, is_there in others.items() if is_there)
        self.tables = (*models, *self.others)
        self.slices = tuple(slice_column(place) for place in range(case.get("by", 0)))
        self.items = next((each.groups.attributes for each in self.task.features if each.name == "groups"), ())
        self.keys = (*self.slices, *([ATTRIBUTE_KEY, GROUP_KEY] if self.items else []))
        options = DescriptionOptions.read(
            case.get("ci", "t"), case.get("quantiles", (0.5,)), weighted="user_weight" in case
        )
        options = replace(
            options, clustered="cluster" in case, normalised=self.task.normalised, n_plain=len(request.standard_values)
        )
        rolls = rollup(len(self.slices), totals="cube" in case)
        rolls = rollup_with_items(rolls, self.items) if self.items else rolls
        names = count_names(self.task, self.tables)
        self.groups = Groups(names, self.task.n_values, options, len(self.keys), rolls, self.items)

    @property
    def score(self):
        """What makes rows of a per-user table."""
        about = {
            grouped_row.USER_WEIGHT: self.case.get("user_weight") is True,
            grouped_row.CLUSTER_HASH: "cluster" in self.case,
        }
        passed = (
            grouped_row.USER_HASH,
            grouped_row.NO_USER,
            *self.slices,
            *(name for name, is_there in about.items() if is_there),
        )
        return score_batches(
            replace(self.task, features=tuple(each for each in self.task.features if each.name != "groups")),
            passed,
            self.columns,
            ("predictions", *self.others),
        )

    # --- slices

    def described(self):
        """The figures of each slice, as the driver has them."""
        messages = []
        if (keep := self.case.get("keep")) and not any(each.needs_all_users for each in self.task.features):
            with mock.patch.object(describing, "messages_of_groups", self._met):
                first = self._states(self.rows.tasks(keep), defers_open_users=True)
                again = lambda hashes: self._states(self.rows.tasks(only=set(hashes.tolist())))  # noqa: E731
                settled = describing.recompute_open_users(first, self.groups, again)
            assert settled.is_whole
            assert settled.n_open, "the case has no open user"
            figures = settled.figures
        else:
            messages = self._met(self._states(self.rows.whole), self.groups)
            figures = figures_by_group(messages, self.groups)
        totals = totals_in(self.task, figures)
        for feature in features_of(self.task):
            figures = feature.figures(figures, Gathered(self.task, messages, totals, self.groups.options))
        return figures

    def _states(self, tasks, **options):
        """The messages that travel, task by task."""
        run = state_of_batches(
            self.task, self.groups.options, grouped_row.NO_USER, self.keys, self.groups.rollup, tables=self.tables, **options
        )  # fmt: skip
        return [list(messages_of(run(iter(task)))) for task in tasks]

    def _met(self, states, groups):
        """What reaches the driver, as of `messages_of_groups`."""
        features = {
            kind: merger for each in features_of(self.task) for kind, merger in each.mergers(groups.options).items()
        }
        if groups.n_keys or groups.layout is not None or groups.options.resamples or features:
            return _merged(states, merging_states(groups.states_of_users, groups.layout) | features)
        return list(chain.from_iterable(states))

    def summarised(self, per_user):
        """The figures of the per-user table, as `summarise` computes them."""
        counts = CountNames(user_counts(self.task), (), ("predictions", *self.others))
        groups = self.groups._replace(
            names=counts, n_values=len(self.columns), options=replace(self.groups.options, n_plain=0)
        )  # fmt: skip
        normalisers = {place: f"{self.columns[place]}_normaliser" for place in self.task.normalised}
        run = state_of_columns(self.columns, counts, groups.options, grouped_row.NO_USER, self.slices, normalisers)
        states = [list(messages_of(run(iter(task)))) for task in per_user]
        return figures_by_group(self._met(states, groups), groups)

    def shown(self, figures):
        names = {
            count_of_model(name, place): f"{name} {model}".strip()
            for name in counts_of_models(self.task)
            for place, model in enumerate(self.task.models)
        }
        attributes = [*map(item_attribute, self.items), *ATTRIBUTES[: len(self.slices)]]
        slices = {}
        for key, group in figures.items():
            slices[slice_name(attributes, key)] = of_slice = dict(
                zip(self.names, map(_described, group.values), strict=False)
            )
            if is_of_all(key):
                # What is 0 for every user is left out.
                counts = {names.get(name, name): _counted(count) for name, count in group.counts.items() if count.total}
                of_slice |= {"counts": dict(sorted(counts.items())), "fingerprints": group.fingerprints}
        if self.items:
            facts = {
                key: {name: int(each.greatest) if (each := group.counts[name]).n else 0 for name in GROUP_FACTS}
                for key, group in figures.items()
            }
            groups = item_groups_in(facts, self.items)
            slices["groups of items"] = [f"{each.slice} {each.n_items} {each.least} {each.most}" for each in groups]
        return dict(sorted(slices.items()))

    # --- comparisons

    def _metrics(self, margin=0.0):
        metrics = [value.metric for value in self.values[: len(self.columns)]]
        return [
            ComparedMetric(name, "", margin, metric.larger_is_better, metric.bounds)
            for name, metric in zip(self.spelled.values(), metrics, strict=True)
        ]

    def _owners(self, per_user, run, layout, merger=None, values=(), group=None, slices=()):
        """The merged states of a comparison, and the sums of clusters; `values` follow those of metrics, `group` stands for the model."""
        tables, values = [name for name in ("labels", "exclude") if name in self.others], (*self.columns, *values)
        fields = {MODEL: pa.string(), compared_users.INVALID: pa.int64()}
        fields |= {compared_users.value_field(place): pa.float64() for place in range(len(values))}
        fields |= {hash_field(name): pa.int64() for name in tables}
        columns = {
            compared_users.USER: (pa.int64(), grouped_row.USER_HASH), compared_users.IS_NULL_USER: (pa.bool_(), grouped_row.NO_USER),
            **{compared_users.slice_field(place): (pa.string(), name) for place, name in enumerate(slices)},
            **({} if layout is None else {compared_users.CLUSTER: (pa.int64(), grouped_row.CLUSTER_HASH)}),
        }  # fmt: skip
        kinds = {name: kind for name, (kind, _) in columns.items()}
        kinds |= {compared_users.ROWS: pa.list_(pa.struct(fields)), compared_users.CONFLICTS: pa.int64()}
        named = (*values, *map(grouped_row.hash_column, tables))
        tasks = []
        for batches in per_user:
            users = {}
            for row in chain.from_iterable(batch.to_pylist() for batch in batches):
                of_model = dict(
                    zip(
                        fields,
                        (name if (name := row[group or MODEL]) is not None else "null", 0, *map(row.get, named)),
                        strict=True,
                    )
                )
                user = {name: row[column] for name, (_, column) in columns.items()}
                users.setdefault(
                    row[grouped_row.USER_HASH], user | {compared_users.ROWS: [], compared_users.CONFLICTS: 0}
                )
                users[row[grouped_row.USER_HASH]][compared_users.ROWS].append(of_model)
            rows = list(users.values())
            parts = [pa.RecordBatch.from_pylist(part, pa.schema(kinds)) for part in (rows[::2], rows[1::2]) if part]
            tasks.append(list(messages_of(run(iter(parts)))))
        merger = merger or (None if layout is None else partial(ClusterMerger, layout))
        met = _merged(tasks, merging_comparisons(merger))
        trees = (message.tree for message in met if message.kind == COMPARISON)
        return ComparisonStates.merged(map(ComparisonStates.from_tree, trees)), merged_clusters(met)

    def compare(self, per_user, baseline, test="sign_flip", replicates=99, correction="holm", margin=0.0):
        metrics, n, cube = self._metrics(margin), len(self.slices), "cube" in self.case
        layout = paired_layout(len(metrics), n, totals=cube) if "cluster" in self.case else None
        merger = None if layout is None else paired_merger(layout, replicates, 7)
        shared = tuple(name for name in ("labels", "exclude") if name in self.others)
        run = paired_batches(baseline, len(metrics), replicates, 7, n, shared, layout)
        state, clusters = self._owners(per_user, run, layout, merger, slices=self.slices)
        others = [name for name in self.task.models if name != baseline]
        clusters, cluster = (None, "") if layout is None else (clusters, "cluster")
        against = AgainstBaseline(baseline, others, metrics, 0.9, correction, 0.01, shared, clusters, cluster, n)
        rows = against.rows(against.compared(state.everyone, replicates), test)
        sliced = against.compared_slices(rolled(state.by_slice, ATTRIBUTES[:n], totals=cube))
        return [_row(row) for row in (*rows, *against.rows(sliced, "sign_flip"))]

    def all_pairs(self, per_user, test="tukey", replicates=50):
        metrics, drawn = self._metrics(), replicates if test == "randomised" else 0
        layout = ClusterLayout(len(metrics), n_keys=1, masks=((True,),)) if "cluster" in self.case else None
        run = all_pairs_batches(len(metrics), drawn, 7, test == "games_howell", layout, ("labels",))
        state, clusters = self._owners(per_user, run, layout)
        of_pairs = None if layout is None else PairClusters(clusters, "cluster")
        owners = state.everyone
        rows, _ = pair_rows(sorted(self.task.models), metrics, owners, 0.9, test, drawn, of_pairs)
        return [_row(row) for row in rows]

    def compare_groups(self, per_user, baseline, covariate=False, sequential=None):
        metrics, weighted = self._metrics(), self.case.get("user_weight") is True
        values = [grouped_row.USER_WEIGHT] * weighted + ["n_predictions"] * covariate
        layout = layout_of_groups(len(metrics), weighted=weighted) if "cluster" in self.case else None
        run = group_batches(len(metrics), weighted=weighted, covariate=covariate, layout=layout)
        state, sums = self._owners(per_user, run, layout, values=values, group=self.slices[0])
        owners = state.everyone
        names = sorted(owner for owner in owners if isinstance(owner, str))
        clusters = None if layout is None else ClustersOfGroups.read(sums, names)
        empty = GroupSumAccumulator(len(metrics), weighted=weighted, covariate=covariate).state()
        options = GroupTest(0.9, "holm", sequential)
        compared = [
            compared_group(metric, place, owners, (name, baseline), empty, options, clusters)
            for place, metric in enumerate(metrics)
            for name in names
            if name != baseline
        ]
        return [_row(row) for row in group_rows(compared, options)]


def _merged(tasks, mergers):
    """The messages that meet by their bucket, or else by their task, in three tasks that have them in order."""
    placed = [message._replace(bucket=task % 8 if message.bucket is None else message.bucket)
              for task, messages in enumerate(tasks) for message in messages]  # fmt: skip
    parts = [sorted(message for message in placed if message.bucket % 3 == part) for part in range(3)]
    return [message for part in parts for message in messages_of(merged_by_bucket(mergers, sort=False)(rows_of(part)))]


# --- figures as text: `repr` of a float has all its digits


def _text(value):
    return repr(float(value)) if isinstance(value, float) else str(value)


def _line(**named):
    return " ".join(f"{name}={_text(value)}" for name, value in named.items())


def _described(value):
    moments, interval, weighted, clusters = value.moments, value.interval, value.weighted, value.clusters
    parts = [
        _line(
            n=moments.n, undefined=moments.n_undefined, zero=moments.n_zero, mean=moments.mean, std=moments.std, least=moments.least,
            greatest=moments.greatest, total=moments.total, error=value.standard_error, median=value.median,
            **{f"q{share}": quantile for share, quantile in value.quantiles.items()},
        )
    ]  # fmt: skip
    if interval is not None:
        parts.append(_line(low=interval.low, high=interval.high, method=interval.method, reason=interval.reason))
    if weighted is not None:
        parts.append(
            _line(
                weighted=weighted.mean, n=weighted.n, without=weighted.n_without_weight, invalid=weighted.n_invalid_weights,
                std=weighted.std, error=weighted.standard_error, df=weighted.df, effective=weighted.effective_n,
                acceleration=weighted.acceleration,
            )
        )  # fmt: skip
    if clusters is not None:
        parts.append(
            _line(
                clusters=clusters.n, without=clusters.n_without, effective=clusters.effective_n, df=clusters.df,
                error=clusters.standard_error, acceleration=clusters.acceleration,
            )
        )  # fmt: skip
    return " | ".join(parts)


def _counted(count):
    return _line(n=count.n, total=count.total, least=count.least, greatest=count.greatest)


def _columns_shown(batches, spelled=MappingProxyType({})):
    """Each column of some batches in one string: once if its values are alike, and as a digest if there are many rows."""
    batches, shown = list(batches), {}
    for name in batches[0].schema.names if batches else ():
        texts = [
            _text(value) for batch in batches for value in batch.column(batch.schema.get_field_index(name)).to_pylist()
        ]
        text = " ".join(texts) if len({*texts}) > 1 else f"{len(texts)} × {texts[0] if texts else ''}"
        is_long = len(texts) > MOST_ROWS or name.startswith("hash_")
        shown[spelled.get(name, name)] = hashlib.blake2b(text.encode(), digest_size=12).hexdigest() if is_long else text
    return shown


#: What rows of comparisons have beside sentences.
_FIELDS = """
    metric slice model other group baseline n_users n_baseline_users n_undefined n_without_covariate mean baseline_mean other_mean
    difference relative_lift std standard_error df interval_low interval_high interval_method no_interval p p_test p_t p_sign_flip
    p_margin p_tukey p_randomised q wins losses ties cohens_d theta variance_saved verdict not_shared n_clusters n_baseline_clusters
    effective_n_clusters design_effect
"""


def _row(row):
    return _line(**{name: getattr(row, name) for name in _FIELDS.split() if hasattr(row, name)})
