"""What a line of a run or of judgements holds."""

import math

import pyarrow as pa
import pytest

from spark_rankeval.trec.lines import QRELS, RUN, parse


def read(form, *lines):
    parsed = parse(pa.array(lines, pa.binary()), form)
    names = list(parsed.columns)
    rows = list(zip(*(parsed.columns[name].to_pylist() for name in names), strict=True))
    return parsed.place.tolist(), rows, parsed.problem.to_pylist()


def test_a_line_of_a_run_and_one_of_judgements():
    assert read(RUN, b"301\tQ0  FR-1 \t104\t 2.129133\tSTANDARD\r") == (
        [0], [("301", "FR-1", 104, 2.129133, "STANDARD")], [None]
    )  # fmt: skip
    assert read(QRELS, b"301 0 CR-1 -2 ") == ([0], [("301", "0", "CR-1", -2)], [None])


def test_lines_that_say_nothing_are_passed_over_and_counted():
    assert read(QRELS, b"", b"1 0 a 1", b" \t", b"# made by hand", b"  # more", b"1 0 b 0")[::2] == (
        [1, 5],
        [None, None],
    )
    assert read(QRELS) == ([], [], [])
    assert read(RUN, b"", b"#") == ([], [], [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0), ("-1.5", -1.5), ("+3e2", 300.0), (".5", 0.5), ("5.", 5.0), ("1E-3", 0.001), ("inf", math.inf),
        ("-Infinity", -math.inf), ("1e999", math.inf), ("0.1", 0.1), ("17.123456789012345", 17.123456789012345),
    ],
)  # fmt: skip
def test_scores_are_what_python_reads(text, value):
    assert float(text) == value
    assert read(RUN, f"1 Q0 a 1 {text} t".encode())[1] == [("1", "a", 1, value, "t")]


def test_a_score_that_is_not_a_number_is_one_for_evaluate_to_refuse():
    assert math.isnan(read(RUN, b"1 Q0 a 1 NaN t")[1][0][3])


@pytest.mark.parametrize(
    ("form", "line", "query", "problem"),
    [
        (RUN, b"1 Q0 a 1 2.5", "1", "5 fields, where a run has 6 (query Q0 item rank score model): '1 Q0 a 1 2.5'"),
        (RUN, b"x", "x", "1 fields"),
        (RUN, b"1 Q0 a 1 0x1A t", "1", "the score '0x1A' is no number"),
        (RUN, b"1 Q0 a 1 1_0 t", "1", "the score '1_0' is no number"),
        (RUN, "1 Q0 a 1 ١ t".encode(), "1", "the score '١' is no number"),
        # An item with a space moves the rank to where the score is looked for.
        (RUN, b"1 Q0 my item 1 2.5 t", "1", "7 fields, where a run has 6"),
        (RUN, b"1 Q0 \xff 1 2.5 t", "1", "not UTF-8: '1 Q0 \ufffd 1 2.5 t'"),
        (QRELS, b"1 0 a", "1", "3 fields, where a qrels has 4 (query iteration item grade)"),
        (QRELS, b"1 0 a 1 2", "1", "5 fields"),
        (QRELS, b"1 0 a 0.5", "1", "the grade '0.5' is no whole number of at most nine digits"),
        (QRELS, b"1 0 a 1000000000", "1", "the grade '1000000000' is no whole number of at most nine digits"),
        (QRELS, b"1 0 a 12345678901", "1", "the grade '12345678901' is no whole number"),
    ],
)
def test_what_does_not_read_keeps_its_query_alone_and_says_why(form, line, query, problem):
    good = {"run": b"2 Q0 a 1 0.5 t", "qrels": b"2 0 a 1"}[form.name]
    place, rows, problems = read(form, good, line, good)
    assert place == [0, 1, 2]
    assert rows[1] == (query, *[None] * (len(rows[1]) - 1))
    assert rows[0] == rows[2]
    assert None not in rows[0]
    assert problems[0] is problems[2] is None
    assert problem in problems[1]


def test_what_follows_the_tag_is_ignored_as_trec_eval_does():
    assert read(RUN, b"1 Q0 a 1 2.5 t and more", b"1 Q0 b 2 1.5 t") == (
        [0, 1], [("1", "a", 1, 2.5, "t"), ("1", "b", 2, 1.5, "t")], [None, None]
    )  # fmt: skip


def test_a_rank_that_is_no_number_is_null_and_nothing_else():
    assert read(RUN, b"1 Q0 a first 2.5 t")[1:] == ([("1", "a", None, 2.5, "t")], [None])


def test_long_lines_are_cut_in_messages():
    (problem,) = read(QRELS, b"1 " + b"x" * 500)[2]
    assert len(problem) < 180
    assert problem.endswith("…'")
