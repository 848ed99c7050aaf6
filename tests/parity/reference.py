"""A convention's value of a metric for one user, from plain loops, and its mean."""

import math
import re

import numpy as np
from oracles import rankings as oracle
from parity.conventions import POPULATIONS

NAME = re.compile(r"(?P<name>\w+)(?:@(?P<k>\d+))?(?:\((?P<arguments>.*)\))?")
NOT_PARAMETERS = ("ties", "scores", "duplicates", "undefined", "empty_list", "candidates", "population")


def parse(metric):
    """`ndcg@10(gain=linear)` as its name, cutoff and parameters."""
    found = NAME.fullmatch(metric)
    arguments = {}
    for argument in filter(None, (found["arguments"] or "").split(",")):
        key, text = argument.split("=")
        arguments[key.strip()] = (
            float(text) if re.fullmatch(r"[-\d.]+|-inf", text) else True if text == "true" else text
        )
    return found["name"], found["k"] and int(found["k"]), arguments


def values(convention, users, metric):
    """The metric of every user that the system counts, by name; NaN where it is undefined."""
    name, k, arguments = parse(metric)
    settings = {**convention.of(name, k, NAME.fullmatch(metric)["arguments"]), **arguments}
    counts = POPULATIONS[settings["population"]]
    return {
        user_name: value(name, k, settings, user)
        for user_name, user in users.items()
        if counts(bool(user.labels), bool(user.predictions), user.predictions is not None)
    }


def mean(per_user):
    """The mean where the metric is defined."""
    defined = [value for value in per_user.values() if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


def value(name, k, settings, user):
    parameters = {key: value for key, value in settings.items() if key not in NOT_PARAMETERS}
    predictions, labels = user.predictions or [], user.labels or []
    if settings.get("scores") == "float32":
        predictions = [(item, float(np.float32(score))) for item, score in predictions]
    if settings.get("candidates") == "union":
        predictions = with_unpredicted(predictions, labels)
    if parameters.pop("judged_only", None):
        labelled = {item for item, grade in labels if grade >= 0}
        predictions = [pair for pair in predictions if pair[0] in labelled]
    if parameters.get("gain") == "binary":
        # Where any labelled item is relevant, one of grade 0 gains as well.
        threshold = parameters.pop("relevance_threshold", None)
        labels = [(item, int(oracle.is_relevant(grade, threshold))) for item, grade in labels]
    ties = settings["ties"]
    if ties == "grade_asc":
        grade = dict(labels)
        predictions, ties = sorted(predictions, key=lambda pair: grade.get(pair[0], 0)), "position"
    duplicates = settings.get("duplicates", "each")
    if duplicates == "once":
        predictions, duplicates = without_repeated_hits(oracle.rank(predictions, ties)), "each"
    if ties == "average":
        return averaged(name, k, parameters, settings, predictions, labels)
    lists = oracle.User(predictions, labels, ties="item_asc" if ties == "unspecified" else ties, duplicates=duplicates)
    found = oracle.value(name, lists, k=k, **parameters)
    if not predictions and settings.get("empty_list") == "nan":
        return math.nan
    if math.isnan(found) and settings["undefined"] == "one_if_empty":
        return float(not predictions)
    if math.isnan(found) and settings["undefined"] == "one":
        return 1.0
    as_zero = {"zero": True, "zero if labelled": bool(labels)}.get(settings["undefined"], False)
    return 0.0 if math.isnan(found) and as_zero else found


def without_repeated_hits(ranked):
    """An item that came before keeps its place, under a name that no label has."""
    seen, kept = set(), []
    for item, score in ranked:
        kept.append((f"{item} again" if item in seen else item, score))
        seen.add(item)
    return kept


def with_unpredicted(predictions, labels):
    """Labelled items that were not predicted follow, with one score."""
    predicted = {item for item, _ in predictions}
    lowest = min((score for _, score in predictions), default=0.0)
    return predictions + [(item, lowest - 1) for item, _ in labels if item not in predicted]


def averaged(name, k, parameters, settings, predictions, labels):
    """DCG and NDCG expected over the orders of equal scores: each of their places carries their mean gain."""
    grade = dict(labels)
    gains_at = {}
    for item, score in predictions:
        gain = oracle.gain_of(grade.get(item, 0), parameters["gain"], "keep", None, False)
        gains_at.setdefault(score, []).append(gain)
    expected = []
    for score in sorted(gains_at, reverse=True):
        gains = gains_at[score]
        expected += [sum(gains) / len(gains)] * len(gains)
    gained = oracle.discounted(expected[:k], "log2")
    if name == "dcg":
        return gained
    best = sorted((oracle.gain_of(g, parameters["gain"], "keep", None, False) for g in grade.values()), reverse=True)
    ideal = oracle.discounted(best[:k], "log2")
    if ideal == 0:
        return 0.0 if settings["undefined"] == "zero" else math.nan
    return gained / ideal
