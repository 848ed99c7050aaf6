"""What a line of a run or of judgements holds, by the patterns that Spark is given as well."""

import re

import pytest
from worlds.trec_lines import BAD, GOOD, NOTHING, NUMBERS

from spark_rankeval.trec.lines import QRELS, RUN, problem_of


@pytest.mark.parametrize(("form", "line"), [(form, line) for form, lines in GOOD.items() for line in lines])
def test_lines_that_read(form, line):
    assert problem_of(line.encode(), form) is None


@pytest.mark.parametrize("number", NUMBERS)
def test_scores_are_what_python_reads(number):
    float(number)
    assert problem_of(f"1 Q0 a 1 {number} t".encode(), RUN) is None
    assert re.fullmatch(RUN.plain, f"1 Q0 a 1 {number} t")


@pytest.mark.parametrize("line", NOTHING)
def test_lines_that_say_nothing_have_no_problem(line):
    assert problem_of(line.encode(), RUN) is None
    assert not re.fullmatch(RUN.plain, line)


@pytest.mark.parametrize(("form", "line", "problem"), BAD)
def test_what_does_not_read_says_why(form, line, problem):
    assert problem in problem_of(line, form)
    assert not re.fullmatch(form.plain, line.decode("utf-8", "replace"))


def test_plain_lines_have_single_blanks_and_nothing_after_the_tag():
    assert re.fullmatch(RUN.plain, "1 Q0 a#b x 2.5 #t")
    for line in ("1 Q0  a 1 2.5 t", " 1 Q0 a 1 2.5 t", "1 Q0 a 1 2.5 t ", "1\tQ0 a 1 2.5 t", "1 Q0 a 1 2.5 t more",
                 "#1 Q0 a 1 2.5 t", "1 Q0 é 1 2.5 t"):  # fmt: skip
        assert not re.fullmatch(RUN.plain, line)


def test_long_lines_are_cut_in_messages():
    problem = problem_of(b"1 " + b"x" * 500, QRELS)
    assert len(problem) < 180
    assert problem.endswith("…'")
