"""Frozen calls that compare, merge, split and show: each is a name and a function of the world."""

import hashlib
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import patch

from frozen.evaluations import SCORED, some
from frozen.texts import whole

from spark_rankeval import (
    Cube,
    Facts,
    Judged,
    Result,
    agreement,
    all_pairs,
    audit,
    check_gates,
    compare,
    compare_groups,
    detectable_difference,
    dialect_map,
    differences,
    evaluate,
    funnel,
    history,
    judge_agreement,
    merge,
    read_gates,
    summarise,
    to_label,
)
from spark_rankeval.report.page import Picture
from spark_rankeval.splits import by_time, last_n

TREC = Path(__file__).parents[1] / "golden" / "trec"


def with_people(w):
    """The per-user table of both models with columns that were joined later."""
    return w.per_user.join(w.people.select("user", "home", "spend", "variant", "before"), "user")


def of_new(w):
    return with_people(w).where("model = 'new'")


def three(w):
    """A table for each of three models."""
    table = with_people(w)
    return {name: table.where(f"model = '{name}'").drop("model") for name in ("new", "old", "low")}


MODELS = {
    "a comparison": lambda w: compare(w.per_user, "old", metrics=["ndcg@5", "rr"]),
    "a comparison by slices with totals": lambda w: compare(
        w.per_user.where("model <> 'low'"), "old", metrics="rr", by=Cube("country", "device"), replicates=199
    ),
    "a comparison by the t test with margins": lambda w: compare(
        w.per_user, "old", test="t", correction="benjamini_hochberg", level=0.9, margin={"ndcg@5": 0.05}
    ),
    "a comparison of clusters": lambda w: compare(
        with_people(w), "old", metrics="ndcg@5", cluster="home", by="device", replicates=199, seed=7
    ),
    "a comparison of three tables": lambda w: compare(three(w), "old", metrics=["ndcg@5", "rr"], correction="none"),
    "differences of users": lambda w: some(differences(w.per_user, "old", metrics=["ndcg@5", "rr"])),
    "all pairs": lambda w: all_pairs(three(w), metrics=["ndcg@5", "rr"]),
    "all pairs of unequal spread": lambda w: all_pairs(three(w), metrics="rr", test="games_howell", margin=0.01),
    "all pairs permuted": lambda w: all_pairs(three(w), metrics=["ndcg@5", "rr"], test="randomised", replicates=199),
    "all pairs of clusters": lambda w: all_pairs(three(w), metrics="rr", cluster="home"),
    "detectable differences": lambda w: [
        detectable_difference(summarise(w.per_user, by="device"), "rr"),
        detectable_difference(compare(w.per_user, "old", metrics="rr", cluster=()), power=0.9),
    ],
    "the agreement of two models": lambda w: agreement(
        w.new, w.old, ["rbo", "kendall_distance(labels='best_k')@5", "precision@3"], score="score", model="new, old"
    ),
    "a funnel of two stages": lambda w: funnel(
        {"old": w.old, "new": w.new}, w.labels, [4, 2], by="country", facts=Facts(attributes=w.people), **SCORED
    ),
    "groups of users": lambda w: compare_groups(of_new(w), "control", group="variant"),
    "groups of users with a covariate and weights": lambda w: compare_groups(
        of_new(w), "control", group="variant", metrics=["rr", "ndcg@5"], covariate="before", user_weight="spend", margin=0.02
    ),
    "groups of users at any time": lambda w: compare_groups(
        of_new(w), "control", group="variant", metrics="rr", sequential=True, tightest_at=50
    ),
    "groups of users in clusters": lambda w: compare_groups(of_new(w), "app", group="device", metrics="rr", cluster="home"),
    "groups of users as tables": lambda w: compare_groups(
        {name: of_new(w).where(f"variant = '{name}'") for name in ("control", "treatment")}, "control", level=0.9
    ),
}  # fmt: skip


def judged(w):
    """Labels with the grades of three judges, one of whom leaves items out."""
    return w.labels.selectExpr(
        "user", "item", "grade", "click", "IF(item < 'f', NULL, 3 - grade) AS llm", "item < 'k' AS early"
    )


def week(w, **options):
    """Two days of results."""
    attributes = w.people if {"user_weight", "cluster", "by"} & options.keys() else None
    about = Facts(attributes=attributes, items=w.items, item_by="provider")
    return {
        day: evaluate(w.new.where(half), w.labels.where(half), ["ndcg@5", "rr"], facts=about, **SCORED, **options)
        for day, half in (("monday", "user < 20"), ("tuesday", "user >= 16"))
    }


def metrics_of(w):
    """The table of metrics of two runs of a job."""
    monday, tuesday = (
        result.to_stored(datetime(2026, 11, day, 4, tzinfo=UTC)).selectExpr("*", f"'run {day}' AS run_id")
        for day, result in zip((16, 17), week(w).values(), strict=True)
    )
    return monday.unionByName(tuesday)


def of_history(w):
    runs = history(metrics_of(w), slice=None)
    rules = read_gates(
        {
            "rr": {"min": 0.3, "max_drop": 0.01},
            "ndcg": {"metric": "ndcg@5", "on": "ci_low", "max_drop_share": 0.5, "same_labels": True},
            "groups": {"metric": "rr", "slice": "*", "min": 0.1},
            "nobody": {"metric": "rr", "model": "als", "min": 0.1},
        }
    )
    first, second = ([each.row for each in runs.rows if each.run == run] for run in runs.runs)
    outcomes = check_gates(rules, second, [("run 16", row) for row in first])
    return [runs.of("rr"), list(outcomes)]


class _Words(HTMLParser):
    """The words of a page by line, without its style and its drawings."""

    def __init__(self):
        super().__init__()
        self.lines, self._within = [], []

    def handle_starttag(self, tag, attrs):
        if tag in ("style", "svg"):
            self._within.append(tag)
        elif tag == "tr":
            self.lines.append("")

    def handle_endtag(self, tag):
        if self._within[-1:] == [tag]:
            self._within.pop()

    def handle_data(self, data):
        if not self._within and (words := " ".join(data.split())):
            self.lines.append(words)


def report(w):
    """The words and the tables of a report with all its sections."""
    result = summarise(w.per_user, by="device")
    gates = check_gates(read_gates({"rr": {"min": 0.9}}), result.summary)
    audited = audit(w.training, w.labels, w.new, items=w.items)
    dialects = dialect_map(w.new, w.labels, "ndcg@5", dialects=["trec_eval"], **SCORED).rows
    comparison = compare(w.per_user, "old", metrics="rr", by="device", replicates=99)
    # Drawings take nearly all the time of a report, and have tests of their own.
    with patch("spark_rankeval.report.page.picture", lambda draw: Picture("title", "", "words", "")):
        path = result.report(
            f"{w.folder}/report.html", comparison=comparison, title="Three models", gates=gates, audit=audited,
            dialects=dialects, manifest={"run": {"seed": 3}},
        )  # fmt: skip
    words = _Words()
    words.feed(Path(path).read_text(encoding="utf-8"))
    now = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
    return [line for line in words.lines if line and not now.fullmatch(line)]


def tables_of(shown, *others):
    """What a result prints: text and Markdown to be read, and the hashes of the other formats, which are long."""
    formats = {"html": shown._repr_html_(), "latex": shown.to_latex() if hasattr(shown, "to_latex") else ""}
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in formats.items()}
    return [repr(shown), shown.to_markdown(), hashes, *others]


def result_of_all(w):
    return summarise(w.per_user, by=["country"], quantiles=(0.25, 0.5))


SHOWN = {
    "a printed result": lambda w: tables_of(found := result_of_all(w), found.explain()),
    "a result as trec_eval prints it": lambda w: summarise(of_new(w).drop("model")).to_trec(per_query=True, runid="new"),
    "a saved result": lambda w: repr(Result.load(result_of_all(w).save(f"{w.folder}/result.json"))),
    "slices in another order": lambda w: result_of_all(w).with_slices(country=["be", "at"]).slices[["slice", "model", "metric", "mean"]],
    "gaps between slices": lambda w: [
        (found := result_of_all(w).gaps("country", metrics="rr", margin=0.1)).to_pandas(), *tables_of(found)
    ],
    "a table of models": lambda w: tables_of(
        (of_all := summarise(w.per_user)).models_table(compare(w.per_user, "old")), of_all.models_table().to_pandas()
    ),
    "a printed comparison": lambda w: tables_of(
        found := compare(w.per_user, "old", by="country"), found.largest_losses(3), found.sentences
    ),
    "printed pairs": lambda w: tables_of(all_pairs(three(w), metrics="rr")),
    "printed groups": lambda w: tables_of(compare_groups(of_new(w), "control", group="variant", covariate="before")),
    "printed dialects": lambda w: tables_of(dialect_map(w.new, w.labels, "ap@5", dialects=["trec_eval", "lenskit"], **SCORED)),
    "a report": report,
}  # fmt: skip


def parts_of(split, w):
    return [split.training, split.held_out, split.labels, str(split.checked_counts())]


def trec(w):
    from spark_rankeval.trec import evaluate_runs, read_qrels, read_run

    qrels = read_qrels(w.spark, str(TREC / "qrels.txt"))
    runs = {name: read_run(w.spark, str(TREC / f"{name}.run")) for name in ("bm25", "dense")}
    return evaluate_runs(runs, qrels, ["ap", "ndcg@10", "bpref", "rr"])


TABLES = {
    "a merged week": lambda w: merge(week(w, user_weight="spend")),
    "a merged week of clusters as it is stored": lambda w: whole(merge(list(week(w, cluster="home").values()))),
    "a merged table of metrics": lambda w: merge(metrics_of(w)),
    "a merged week of stored results": lambda w: merge([result.to_json() for result in week(w, ci=None).values()]),
    "a table of metrics": lambda w: metrics_of(w).where("metric = 'rr'"),
    "a history with gates": of_history,
    "an audit": lambda w: [
        (found := audit(w.training, w.labels, w.new, items=w.items)).to_pandas(), found.verdict, *tables_of(found),
        found.check({"labels_in_training": 0.1, "cold_label_users": 1}),
    ],
    "an audit of times": lambda w: audit(
        w.log.where("day < 7"), w.log.where("day >= 5"), time="day", on_invalid="drop"
    ).to_pandas(),
    "the agreement of judges": lambda w: [
        (found := judge_agreement(judged(w), ["grade", "click", "llm"], by="early")), found.sentences, *tables_of(found)
    ],
    "pairs to label": lambda w: to_label(
        {"new": w.new, "old": w.old},
        w.labels.selectExpr("user", "item", "grade AS llm", "CAST(IF(user < 4, click, NULL) AS DOUBLE) AS human"), "ndcg@3", 40,
        relevance=Judged(human="human", judge="llm"), score="score", show_judge=True,
    ).orderBy("user", "item").toPandas(),
    "a split by time": lambda w: parts_of(
        by_time(w.log, 7, horizon=3, time="day", relevance="event", grades={"click": 1, "buy": 3}, leave_out="seen"), w
    ),
    "a split by last events": lambda w: parts_of(last_n(w.log, 2, time="day", leave_out=["cold_users", "cold_items"]), w),
    "runs of TREC": trec,
}  # fmt: skip
