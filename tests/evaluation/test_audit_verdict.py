"""What an audit says of its counts: the verdict, the table, and limits."""

import math

import pytest

from spark_rankeval.errors import OptionError
from spark_rankeval.evaluation.audit import Audit
from spark_rankeval.records.quality import CHECKS, AuditRow, InvalidRows

UNTIMED = "labels has no column 'timestamp' (time=)"
LEFT_OUT = InvalidRows("training", 900, 1000, "a null or NaN user or item or time ('day')")


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


SCENES = {
    "nothing found": audited(),
    "a leak beside a note": audited(labels_in_training=3, cold_label_users=50, labels_outside_items="there is no catalogue (items=)"),
    "checks that were not made": audited(labels_before_training_end=UNTIMED, labels_before_user_end=UNTIMED),
    "rows left out": audited([LEFT_OUT]),
    "rows left out, and a check not made": audited([LEFT_OUT], labels_in_training="there is none"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_a_verdict_is_as_stored(golden, name):
    golden(f"leaked: {SCENES[name].leaked}\n{SCENES[name].verdict}")


def test_a_table_is_as_stored(golden):
    golden(repr(SCENES["a leak beside a note"]), "text")
    golden(SCENES["a leak beside a note"].to_pandas().to_csv(index=False), "frame")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_has_a_paragraph_of_its_own(check):
    found = audited(**{check.name: 7})
    assert found.leaked == (check.kind == "leak")
    (paragraph,) = found.verdict.splitlines()[1:]
    assert "7 of 100" in paragraph
    assert check.meaning in paragraph
    assert paragraph.endswith(check.advice)


def test_the_same_as_values():
    partly = audited([LEFT_OUT], labels_outside_items="there is none")
    assert partly.to_dict()["n_invalid"]["training"] == {"n": 900, "of": 1000, "reason": LEFT_OUT.reason}
    assert partly.n_invalid == {"training": 900}
    row = partly.to_dict()["labels_outside_items"]
    assert (row["share"], row["not_checked"]) == (None, "there is none")
    assert math.isnan(partly["labels_outside_items"].share)
    with pytest.raises(OptionError, match="no check is called 'leaks'"):
        partly["leaks"]


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
