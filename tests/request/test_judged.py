"""Options of two judges: what they name, what they allow, and what is refused."""

import pytest

from spark_rankeval import Judged
from spark_rankeval.errors import InputError, OptionError
from spark_rankeval.request.column_names import AttributeNames, ColumnNames
from spark_rankeval.request.options import ScoringOptions, grade_columns

BOTH = Judged(human="human", judge="llm", graded="by_people", probability="share", stratum="part")


def test_the_grades_of_the_model_come_first():
    assert BOTH.columns == grade_columns(BOTH) == ("llm", "human")
    assert ColumnNames.read(ScoringOptions(relevance=BOTH), one_table=False).relevance == ("llm", "human")
    assert (grade_columns("llm"), grade_columns(None)) == ("llm", None)


def test_grades_may_be_missing_of_two_judges_alone():
    assert ScoringOptions(relevance=BOTH).on_missing == "unjudged"
    assert ScoringOptions(relevance=["llm", "human"]).on_missing == "error"
    assert ScoringOptions(relevance="human", on_missing="unjudged").on_missing == "unjudged"
    with pytest.raises(OptionError, match=r"on_missing='unjudged' is about missing grades; name their column"):
        ScoringOptions(on_missing="unjudged")
    with pytest.raises(OptionError, match="on_missing must be one of 'error', 'unjudged'"):
        ScoringOptions(relevance="human", on_missing="drop")


def test_what_says_whom_people_graded_is_looked_up_like_attributes():
    names = AttributeNames.from_options(ScoringOptions(relevance=BOTH, by="country"))
    assert set(names.all) == {"country", "by_people", "share", "part"}
    assert "probability='share'" in names.words()
    assert AttributeNames.from_options(ScoringOptions(relevance="human")).all == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"human": None}, "human of Judged must be the name of a column of grades; got None"),
        ({"judge": 3}, "judge of Judged must be the name of a column of grades; got 3"),
        ({"human": "llm"}, "human and judge of Judged must be two columns of grades; both are 'llm'"),
        ({"graded": 1}, "graded must be a column name; got 1"),
        ({"probability": 0.5}, "probability must be a column name; got 0.5"),
        ({"stratum": ["part"]}, "stratum must be a column name"),
    ],
)
def test_judges_that_are_no_columns_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        Judged(**{"human": "human", "judge": "llm"} | options)
