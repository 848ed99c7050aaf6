"""What a job tells while it runs: nothing but errors, or one line of JSON an event, for those who collect logs."""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_rankeval.errors import SparkRankEvalWarning
from spark_rankeval.jobs.secrets import redacted
from spark_rankeval.jobs.wording import with_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: How events are written: for a reader, who sees warnings and errors alone, or for a program.
FORMATS = ("text", "json")


class EventLog:
    """A job's events, on stderr.

    Attributes:
        run_id: the run that events are about, once it is known.
    """

    def __init__(self, job: str, form: str = "text", hide: Callable[[str], str] = redacted) -> None:
        """Begin a log of a job, in one of `FORMATS`, of which a function takes the secrets out."""
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
        """Write warnings, as events or, of those of the package, as lines for a reader.

        Args:
            keys: the keys of the options that warnings of the package name, by the options' names.
        """
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
    """Facts without secrets."""
    if isinstance(value, dict):
        return {name: _hidden(inside, hide) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(inside, hide) for inside in value]
    return hide(value) if isinstance(value, str) else value
