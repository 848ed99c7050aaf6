"""What a job tells on stderr: errors and warnings, with the keys of the options that they name, or one line of JSON an event."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from spark_rankeval.errors import ConfigurationError, SparkRankEvalError, SparkRankEvalWarning
from spark_rankeval.jobs.secrets import redacted

#: How events are written: for a reader, who sees warnings and errors alone, or for a program.
FORMATS = ("text", "json")

_BEGINNING = "In the configuration: "
# An option is named as `score=`; a name after a slash is of a path.
_OPTION = re.compile(r"(?<![\w/.@])([a-z_]+)=")
# A metric has parameters of its own; Facts(…) and BCa(…) hold options.
_METRIC = re.compile(r"\b[a-z]\w*\([^()]*\)")


class EventLog:
    """A job's events, on stderr.

    Attributes:
        run_id: the run that events are about, once it is known.
    """

    def __init__(self, job: str, form: str = "text", hide: Callable[[str], str] = redacted) -> None:
        """Begin a log of a job in one of `FORMATS`; a function takes the secrets out."""
        self.run_id: str | None = None
        self._job, self._as_json, self._hide = job, form == "json", hide

    def tell(self, event: str, **facts: Any) -> None:
        """Write an event, such as ``started``; for a reader nothing."""
        if self._as_json:
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": time, "job": self._job, "run_id": self.run_id, "event": event, **_hidden(facts, self._hide)}
            sys.stderr.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
            sys.stderr.flush()

    def fail(self, text: str, **facts: Any) -> None:
        """Write that the job has failed."""
        if self._as_json:
            trace = {"traceback": text} if text.startswith("Traceback") else {}
            self.tell("failed", **facts, **trace)
        else:
            sys.stderr.write(self._hide(text))

    @contextmanager
    def with_warnings(self, keys: Mapping[str, str] | None = None) -> Iterator[None]:
        """Write warnings as events, or those of the package as lines for a reader; for `keys` see `with_keys`."""
        show = warnings.showwarning

        def write(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            is_ours = issubclass(category, SparkRankEvalWarning)
            text = with_keys(str(message), keys or {}) if is_ours else str(message)
            if self._as_json:
                self.tell("warning", kind=category.__name__, warning=text)
            elif is_ours:
                sys.stderr.write(self._hide(f"{self._job}: warning: {' '.join(text.split())}\n"))
            else:
                show(message, category, *place, **more)

        with warnings.catch_warnings():
            warnings.showwarning = write
            yield


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {name: _hidden(inside, hide) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(inside, hide) for inside in value]
    return hide(value) if isinstance(value, str) else value


def with_keys(text: str, keys: Mapping[str, str]) -> str:
    """A message with a sentence on the keys of the options that it names; the keys are by the options' names.

    >>> keys = {"on_invalid": "evaluation.on_invalid", "score": "columns.score"}
    >>> with_keys("user=1, score=nan. Fix the data, or pass on_invalid='drop'", keys)
    "user=1, score=nan. Fix the data, or pass on_invalid='drop'. In the configuration: evaluation.on_invalid"
    """
    # Up to "Fix the data" it is about rows: user=1 is no option there.
    options = _OPTION.findall(_METRIC.sub("", text.rpartition("Fix the ")[2]))
    named = dict.fromkeys(keys[option] for option in options if option in keys)
    # A message may pass several places. The first knows best.
    if not named or _BEGINNING in text:
        return text
    return f"{text.rstrip('.')}. {_BEGINNING}{', '.join(named)}"


@contextmanager
def errors_with_keys(keys: Mapping[str, str]) -> Iterator[None]:
    """Errors of the library get the keys of a configuration; see `with_keys`."""
    try:
        yield
    except ConfigurationError:
        # It is about keys already.
        raise
    except SparkRankEvalError as error:
        error.args = (with_keys(str(error), keys), *error.args[1:])
        raise
