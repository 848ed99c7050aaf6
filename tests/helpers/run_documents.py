"""Jobs in the session of the tests: what they print, and what a run says of itself."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest


class Done(NamedTuple):
    """A job that has run in a folder: its exit code and what it printed, in which the folder is called FOLDER."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def scene(self):
        """All that somebody sees of it, but for what engines that prune lists do not see."""
        shown = re.sub(r"note   no list reaches .*\n", "", self.out).rstrip()
        return "\n".join([f"exit code {self.code}", shown, *(f"stderr: {line}" for line in self.lines)])

    def says(self, code, *words):
        """Whether it has ended with the code and said the words on stderr."""
        return self.code == code and all(text in self.err for text in words)

    @property
    def lines(self):
        return self.err.splitlines()

    @property
    def events(self):
        """What it logged as JSON."""
        return [json.loads(line) for line in self.lines]

    @property
    def page(self):
        """The only report of its output."""
        (page,) = (self.folder / "out/reports").rglob("*.html")
        return page.read_text(encoding="utf-8")


def run_here(main, folder, text, *settings, options=(), name="job"):
    """Run a job with a configuration, in which FOLDER is the folder, and with settings of the command line."""
    (folder / f"{name}.toml").write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
    words = [word for one in settings for word in ("--set", one.replace("FOLDER", str(folder)))]
    return called(main, folder, "--config", f"{folder}/{name}.toml", *words, *options)


def called(main, folder, *words):
    """Call a job with the words of its command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, words)])
    out, err = (stream.getvalue().replace(str(folder), "FOLDER") for stream in (out, err))
    return Done(code, out, err, folder)


def run_document(output, table="manifests", run_id="*"):
    """The JSON of a run in a table of text on this machine's disk; of the only run if none is named."""
    (file,) = Path(output, table).glob(f"run_id={run_id}/[!._]*")
    (line,) = file.read_text(encoding="utf-8").splitlines()
    return json.loads(line, parse_constant=pytest.fail)


def contents(folder, *without):
    """Every file below a folder with what is in it, but for those of some tables."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(path): file.read_bytes() for path, file in files.items() if path.parts[0] not in without}
