"""Lines of runs and judgements that read, say nothing, or do not read: for the patterns alone, and for Spark."""

from spark_rankeval.trec.files import QRELS, RUN

GOOD = {
    RUN: [
        "301\tQ0  FR-1 \t104\t 2.129133\tSTANDARD", " 1 Q0 a 1 2.5 t\v\f", "1 Q0 é 1 2.5 t", "1 Q0 \ufffd 1 2.5 t",
        "1 Q0 a first 2.5 t", "1 Q0 a 1 2.5 t and more", "1 Q0 a#b 1 2.5 #t", "1 Q0 a\u2028b 1 2.5 t\u2028",
    ],
    QRELS: ["301 0 CR-1 -2 ", "1 0 a +1", "1 0 a 999999999"],
}  # fmt: skip
NUMBERS = ["1", "-1.5", "+3e2", ".5", "5.", "1E-3", "inf", "-Infinity", "1e999", "17.123456789012345", "NaN", "-nan"]
NOTHING = ["", " \t", "# made by hand", "  # more", "\r"]
BAD = [
    (RUN, b"1 Q0 a 1 2.5", "5 fields; a run has 6 (query Q0 item rank score model): '1 Q0 a 1 2.5'"),
    (RUN, b"x", "1 fields"),
    (RUN, b"1 Q0 a 1 0x1A t", "the score '0x1A' is not a number"),
    (RUN, b"1 Q0 a 1 1_0 t", "the score '1_0' is not a number"),
    (RUN, b"1 Q0 a 1 1d t", "the score '1d' is not a number"),
    (RUN, b"1 Q0 a 1 nane t", "the score 'nane' is not a number"),
    (RUN, "1 Q0 a 1 ١ t".encode(), "the score '١' is not a number"),
    (RUN, "1 Q0 a 1 2\u2028 t".encode(), "the score '2\\u2028' is not a number"),
    # An item with a space moves the rank to the place of the score.
    (RUN, b"1 Q0 my item 1 2.5 t", "7 fields; a run has 6"),
    (RUN, b"1 Q0 \xff 1 2.5 t", "not UTF-8: '1 Q0 \ufffd 1 2.5 t'"),
    (RUN, b"1 Q0 a 1 2.5 t\xe2\x82", "not UTF-8: '1 Q0 a 1 2.5 t\ufffd'"),
    (QRELS, b"1 0 a", "3 fields; a qrels has 4 (query iteration item grade)"),
    (QRELS, b"1 0 a 1 2", "5 fields"),
    (QRELS, b"1 0 a 0.5", "the grade '0.5' is not a whole number of at most nine digits"),
    (QRELS, b"1 0 a 1000000000", "the grade '1000000000' is not a whole number of at most nine digits"),
    (QRELS, "1 0 a 1\u2029".encode(), "the grade '1\\u2029' is not a whole number"),
]
