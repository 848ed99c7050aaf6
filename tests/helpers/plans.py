"""The plans of DataFrames as text, on every platform."""

import contextlib
import io


def plan_of(frame):
    """The physical plan, before anything has run."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain()
    assert "Physical Plan" in text.getvalue()
    return text.getvalue()
