"""What each system computes, in this project's words: found by running it beside the naive reference.

A convention is data, by metric; `"*"` holds for all, `"rr@"` for `rr` with a cutoff, `"ap(denominator=k)"` for `ap` with
these parameters. Beside the metrics' own parameters
there are:

- `undefined`: where the metric has no value, the user has none ("nan"), 0 ("zero"; "zero if labelled": with a label;
  "one_if_empty": 1 without predictions) or 1 ("one");
- `empty_list`: "nan": a user without predictions has no value;
- `ties`: as the oracle knows them; "unspecified": the order of equal scores is the system's secret, and none are tested;
  "grade_asc": the lowest grade comes first;
- `scores`: "float32" where they are rounded before they are compared;
- `duplicates`: "each" occurrence of an item counts; or "once": a later one keeps its place and is no hit; or "keep_best": it is
  left out, and others move up;
- `candidates`: "union" where labelled items that were not predicted follow the list, all with one score;
- `population`: whom the system gives a value.
"""

import math
from typing import Any, NamedTuple

EVERY_METRIC = "*"
# Any labelled item is relevant, whatever its grade.
MEMBERSHIP = {"relevance_threshold": -math.inf}

# Who has a value, by whether a user has labels, whether predictions, and whether a list of them, which may be empty.
POPULATIONS = {
    "labels": lambda labels, predictions, listed: labels,
    "both": lambda labels, predictions, listed: labels and predictions,
    "lists": lambda labels, predictions, listed: listed and (labels or predictions),
    "every list": lambda labels, predictions, listed: listed,
    "rows": lambda labels, predictions, listed: True,
}


class Convention(NamedTuple):
    """A system's choices: settings by metric name."""

    settings: dict[str, dict[str, Any]]

    def of(self, name, k, arguments=""):
        """What holds for a metric, with a cutoff or without, and with these parameters."""
        return {
            **self.settings.get(EVERY_METRIC, {}),
            **self.settings.get(name, {}),
            **(self.settings.get(f"{name}@", {}) if k is not None else {}),
            **self.settings.get(f"{name}({arguments})", {}),
        }


PYTREC_EVAL = Convention(
    {
        "*": {"ties": "item_desc", "scores": "float32", "undefined": "zero", "population": "both"},
        "ap": {"denominator": "labels"},
        "ndcg": {"gain": "linear", "ideal": "labels"},
        "iprec": {"rounding": "floor_plus_0.9"},
        "iprec_11pt": {"rounding": "floor_plus_0.9"},
    }
)

TREC_EVAL_10 = Convention(
    {
        **PYTREC_EVAL.settings,
        "*": {"ties": "item_desc", "scores": "float64", "undefined": "zero", "population": "labels"},
        "iprec": {"rounding": "half_away"},
        "iprec_11pt": {"rounding": "half_away"},
        "rbp": {"p": 0.9},
    }
)

IR_MEASURES = Convention(
    {
        **PYTREC_EVAL.settings,
        "*": {**PYTREC_EVAL.settings["*"], "population": "labels"},
        # The MS MARCO script and the package's own: the score as it is, then the item's id upwards.
        "rr@": {"ties": "item_asc", "scores": "float64"},
        "judged": {"ties": "item_asc", "scores": "float64"},
        # gdeval: the score as it is, then the item's id downwards.
        "err": {"scores": "float64", "max_grade": 4},
        # cwl_eval: equal scores stay in the order given.
        "rbp": {"ties": "position", "scores": "float64", "gain": "binary", "p": 0.8},
    }
)

RANX = Convention(
    {
        "*": {"ties": "unspecified", "undefined": "zero", "population": "labels"},
        "ap": {"denominator": "labels"},
        "dcg": {"gain": "linear", "below_threshold": "zero"},
        "ndcg": {"gain": "linear", "ideal": "labels", "below_threshold": "zero"},
        "rbp": {"gain": "raw", "below_threshold": "zero"},
        "iprec": {"rounding": "floor_plus_0.9"},
    }
)

SKLEARN = Convention(
    {
        "*": {"ties": "average", "undefined": "zero", "population": "both", "candidates": "union"},
        "dcg": {"gain": "linear"},
        "ndcg": {"gain": "linear", "ideal": "labels"},
        "ap": {"by": "threshold", "ties": "item_asc"},
        "auc": {"ties": "item_asc", "undefined": "nan"},
        "auc_pr": {"ties": "item_asc", "undefined": "nan", "recall": "hits"},
    }
)

SCIPY = Convention({"*": {"ties": "item_asc", "undefined": "nan", "population": "both"}})

LENSKIT_2025 = Convention(
    {
        "*": {**MEMBERSHIP, "ties": "position", "duplicates": "each", "undefined": "nan", "population": "lists"},
        "precision": {"denominator": "predictions", "undefined": "zero"},
        "recall": {"denominator": "min_k_labels"},
        "ap": {"denominator": "min_labels_predictions"},
        "ndcg": {"gain": "binary", "ideal": "labels", "discount": "log2_from_two"},
        "dcg": {"gain": "binary", "discount": "log2_from_two", "undefined": "zero"},
        "rbp": {"gain": "binary", "p": 0.85},
    }
)

LENSKIT = Convention(
    {
        **LENSKIT_2025.settings,
        "*": {**LENSKIT_2025.settings["*"], "population": "every list"},
        "precision": {**LENSKIT_2025.settings["precision"], "empty_list": "nan"},
        "ap": {**LENSKIT_2025.settings["ap"], "empty_list": "nan"},
        "ndcg": {**LENSKIT_2025.settings["ndcg"], "undefined": "zero if labelled"},
        "dcg": {**LENSKIT_2025.settings["dcg"], "undefined": "zero if labelled"},
    }
)

TORCHMETRICS = Convention(
    {
        "*": {
            "ties": "unspecified",
            "scores": "float32",
            "undefined": "zero",
            "population": "both",
            "candidates": "union",
        },
        "ap": {"denominator": "hits"},
        "ndcg": {"gain": "linear", "ideal": "labels", "ties": "average"},
        # Of one class alone: 0.
        "auc": {"ties": "item_asc"},
    }
)

RECTOOLS = Convention(
    {
        "*": {**MEMBERSHIP, "ties": "position", "duplicates": "each", "undefined": "zero", "population": "labels"},
        "ap": {"denominator": "labels"},
        "ndcg": {"gain": "binary", "ideal": "k_ones"},
    }
)

REPLAY = Convention(
    {
        "*": {**MEMBERSHIP, "ties": "item_desc", "duplicates": "each", "undefined": "zero", "population": "labels"},
        **{name: {"duplicates": "once"} for name in ("precision", "recall", "hit_rate")},
        "ap": {"denominator": "min_k_labels"},
        "ndcg": {"gain": "binary", "ideal": "labels"},
    }
)

RECOMMENDERS = Convention(
    {
        "*": {**MEMBERSHIP, "ties": "unspecified", "duplicates": "each", "undefined": "zero", "population": "both"},
        "ap": {"denominator": "labels"},
        # Its mean counts users who have labels alone as 0; those of the other metrics drop them.
        "ndcg": {"gain": "binary", "ideal": "labels", "population": "labels"},
    }
)

RECBOLE = Convention(
    {
        "*": {**MEMBERSHIP, "ties": "position", "undefined": "zero", "population": "labels"},
        "ap": {"denominator": "min_k_labels"},
        "ndcg": {"gain": "binary", "ideal": "labels"},
    }
)

BEIR = Convention(
    {
        **{name: PYTREC_EVAL.settings[name] for name in ("*", "ap", "ndcg")},
        # Its own measures: the score as it is, then the order given; and a query without a run counts.
        **{
            name: {"ties": "position", "scores": "float64", "population": "labels"}
            for name in ("rr", "hit_rate", "recall(denominator=min_k_labels)")
        },
        "holes": {"ties": "position", "scores": "float64", "population": "labels", "denominator": "k"},
    }
)

MTEB = Convention(
    {
        **{name: PYTREC_EVAL.settings[name] for name in ("*", "ap", "ndcg")},
        # Its own measures: the score as it is.
        "rr": {"scores": "float64"},
        "recall(denominator=min_k_labels,undefined=nan)": {"scores": "float64"},
        "holes": {"scores": "float64", "denominator": "k"},
    }
)

AZURE = Convention(
    {
        "*": {"ties": "position", "undefined": "zero", "population": "labels"},
        "ndcg": {"ideal": "labels"},
        "xdcg": {"max_grade": 4},
        "holes": {"denominator": "one"},
    }
)

MLFLOW = Convention(
    {
        "*": {"ties": "position", "duplicates": "each", "population": "rows"},
        "precision": {"denominator": "predictions", "undefined": "zero"},
        "recall": {"duplicates": "once", "undefined": "one_if_empty"},
        "ndcg": {"gain": "binary", "ideal": "filled_places", "undefined": "one_if_empty"},
    }
)

RAGAS = Convention(
    {
        "*": {"ties": "position", "duplicates": "keep_best", "undefined": "nan", "population": "rows"},
        "precision": {"denominator": "predictions", "undefined": "zero", "empty_list": "nan"},
        "ap": {"duplicates": "each", "undefined": "zero"},
    }
)

LIGHTGBM = Convention(
    {
        "*": {"ties": "position", "undefined": "one", "population": "both"},
        "ndcg": {"ideal": "labels"},
        "ap": {"denominator": "min_k_labels"},
    }
)

XGBOOST = Convention(
    {
        **LIGHTGBM.settings,
        "*": {**LIGHTGBM.settings["*"], "scores": "float32"},
        "precision": {"denominator": "predictions", "undefined": "zero"},
    }
)

CATBOOST = Convention(
    {
        "*": {"ties": "grade_asc", "undefined": "zero", "population": "both"},
        "ndcg": {"gain": "linear", "ideal": "labels", "undefined": "one"},
        "dcg": {"gain": "linear"},
        "ap": {"denominator": "min_k_labels"},
        "precision": {"denominator": "predictions"},
        "recall": {"undefined": "one"},
    }
)
