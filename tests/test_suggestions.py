"""What a message suggests for a name that is not known is what was meant, or nothing."""

import pytest

from spark_rankeval.errors import MetricError, OptionError, did_you_mean
from spark_rankeval.metrics.naming import parse_metric
from spark_rankeval.request.call import OnInvalid


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("precison@10", "did you mean 'precision'? docs/conventions.md has all metrics, such as ndcg, "),
        ("ndcg10", "did you mean 'ndcg@10'? "),
        ("map10", "did you mean 'map@10'? "),
        ("ndgc_cut_10", "did you mean 'ndcg@10'? "),
        ("gm_map", "the nearest is 'ap' with dialect='trec_eval'; docs"),
        ("rndcg_cut_5", "the nearest is 'ndcg@5' with dialect='trec_eval'; docs"),
        (
            "map_at_k",
            "'map_at_k' needs a number as its cutoff, as in 'ap@10'; for a system's definition name its dialect",
        ),
        ("rmse", "(in 'rmse'); docs/conventions.md has all"),
        # By which systems mean different things, or a version of their own.
        ("hits@5", "systems mean different things by it. The share of lists with a hit is 'hit_rate'; docs"),
        ("Accuracy_at_10", "systems mean different things by it. The share of lists with a hit is 'hit_rate@10'; docs"),
        ("NERR8@10", "did you mean 'nerr'? docs"),
    ],
)
def test_a_metric_is_suggested_by_the_name_that_was_meant(asked, expected):
    with pytest.raises(MetricError) as caught:
        parse_metric(asked)
    assert expected in str(caught.value)


def test_names_that_are_much_less_alike_than_the_nearest_are_left_out():
    assert did_you_mean("country=GB", ["all", "country=DE", "country=FR", "genre=X"]) == (
        "did you mean 'country=DE' or 'country=FR'? "
    )
    assert did_you_mean("mlib", ["mllib", "mllib-4.3"]) == "did you mean 'mllib'? "
    assert did_you_mean(3, []) == ""


def test_a_kind_of_rows_is_suggested():
    with pytest.raises(
        OptionError, match="there is no kind 'duplicate_prediction'; did you mean 'duplicate_predictions'"
    ):
        OnInvalid.read({"duplicate_prediction": "drop"})
