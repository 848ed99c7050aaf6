"""What an audit says of its counts: the verdict, the table, and limits."""

import math

import pytest

from spark_rankeval.auditing.audit import Audit
from spark_rankeval.errors import OptionError
from spark_rankeval.records.audit_rows import CHECKS, AuditRow, InvalidRows


def audited(invalid=(), **counts):
    """An audit in which every check found nothing among 100, but for those given as a count or as a reason."""
    rows = []
    for check in CHECKS:
        given = counts.pop(check.name, 0)
        if isinstance(given, str):
            rows.append(AuditRow(check.name, 0, 0, not_checked=given))
        else:
            rows.append(AuditRow(check.name, given, 100, ({"user": 1, "item": "a"},) if given else ()))
    assert not counts, "every name is a check's"
    return Audit(tuple(rows), invalid)


def test_nothing_found():
    clean = audited()
    assert not clean.leaked
    assert clean.verdict == "No leak was found."
    assert {row.result for row in clean.rows} == {"none"}


def test_a_leak_comes_first_and_says_what_to_do():
    found = audited(labels_in_training=3, cold_label_users=50)
    headline, leak, note = found.verdict.splitlines()
    assert found.leaked
    assert headline == "Leaked: labels that training also has."
    assert leak.startswith("Labels that training also has: 3 of 100 labels (3.0%). The model has seen these answers")
    assert "Take these pairs of user and item out of training or out of labels" in leak
    assert note.startswith("Users with labels but without training rows: 50 of 100 users with labels (50.0%).")


@pytest.mark.parametrize("check", [check.name for check in CHECKS])
def test_every_check_has_a_paragraph_of_its_own(check):
    found = audited(**{check: 7})
    assert found.leaked == (found[check].check.kind == "leak")
    (paragraph,) = found.verdict.splitlines()[1:]
    assert "7 of 100" in paragraph
    assert found[check].check.meaning in paragraph
    assert paragraph.endswith(found[check].check.advice)


def test_what_was_not_checked_is_no_all_clear():
    reason = "labels has no column 'timestamp' (time=)"
    partly = audited(labels_before_training_end=reason, labels_before_user_end=reason)
    headline, unchecked = partly.verdict.splitlines()
    assert headline == "No leak was found, but 2 of 4 checks for leaks could not be made."
    assert unchecked.startswith(f"Not checked, because {reason}: labels before the end of training and labels before")
    assert math.isnan(partly["labels_before_user_end"].share)


def test_rows_that_were_left_out_are_no_all_clear():
    partly = audited([InvalidRows("training", 900, 1000, "a null or NaN user or item or time ('day')")])
    assert partly.verdict.splitlines() == [
        "No leak was found among the rows that can be used.",
        "Left out: 900 of 1,000 rows of training (90.0%) with a null or NaN user or item or time ('day'). Leaks among them do not show.",
    ]
    assert partly.to_dict()["n_invalid"]["training"] == {"n": 900, "of": 1000, "reason": partly.invalid[0].reason}
    assert partly.n_invalid == {"training": 900}
    assert len(partly.to_pandas()) == len(CHECKS)
    assert "among the rows that can be used, but 1 of 4" in audited(partly.invalid, labels_in_training="no").verdict


def test_the_table_shows_counts_examples_and_reasons():
    shown = repr(audited(labels_in_training=3, labels_outside_items="there is no catalogue (items=)"))
    lines = {line.partition("  ")[0]: line.split() for line in shown.splitlines()}
    leak = lines["labels that training also has"]
    assert leak[leak.index("leak") :] == ["leak", "3", "100", "3.0%", "user=1,", "item='a'"]
    assert lines["labels of items outside the catalogue"][6:11] == ["not", "checked", "–", "–", "–"]
    assert "there is no catalogue" in shown


def test_limits_are_shares_and_exact():
    found = audited(labels_in_training=3, cold_label_items="there is none")
    limits = {"labels_in_training": 0.03, "labels_before_user_end": 0, "cold_label_items": 1}
    assert [(gate.passed, gate.found) for gate in found.check(limits)] == [
        (True, "3% (3 of 100)"),
        (True, "0% (0 of 100)"),
        (False, "not checked: there is none"),
    ]
    (gate,) = found.check({"labels_in_training": 0.029})
    assert (gate.passed, gate.name, gate.condition) == (False, "labels that training also has", "share at most 0.029")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"label_in_training": 0}, r"no check is called 'label_in_training'; did you mean 'labels_in_training'"),
        ({"labels_in_training": 3}, r"labels_in_training must be a share from 0 to 1; got 3"),
        ({"labels_in_training": True}, "got True"),
        ({"labels_in_training": math.nan}, "got nan"),
        ([], "limits must be a dict"),
    ],
)
def test_wrong_limits_are_refused(limits, words):
    with pytest.raises(OptionError, match=words):
        audited().check(limits)


def test_an_unknown_check_is_refused():
    with pytest.raises(OptionError, match="no check is called 'leaks'"):
        audited()["leaks"]


def test_the_same_as_a_frame_and_as_values():
    found = audited(labels_in_training=3, labels_outside_items="there is none")
    frame = found.to_pandas().set_index("check")
    assert frame.loc["labels_in_training", ["n", "of", "share", "examples"]].tolist() == [
        3,
        100,
        0.03,
        "user=1, item='a'",
    ]
    assert found.to_dict()["labels_outside_items"]["share"] is None
    assert found.to_dict()["labels_outside_items"]["not_checked"] == "there is none"
