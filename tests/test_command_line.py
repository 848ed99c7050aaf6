"""The command ``spark-rankeval``, in this process and in one of its own."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from helpers.run_documents import called

from spark_rankeval import __version__
from spark_rankeval.dialects.published import DIALECTS
from spark_rankeval.jobs.command import main

ROOT = Path(__file__).parents[1]
JOBS = ("evaluate", "compare", "compare_groups", "trend")


@pytest.fixture
def call(tmp_path):
    """Calls the command, also if it leaves as programs do."""

    def leaving(words):
        try:
            return main(words)
        except SystemExit as left:
            return left.code

    return lambda *words: called(leaving, tmp_path, *words)


def test_the_script_is_the_command_and_tells_its_version_both_ways(call):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["spark-rankeval"] == "spark_rankeval.__main__:main"
    told = [call(asked) for asked in ("version", "--version")]
    assert [(done.code, done.out) for done in told] == [(0, f"{__version__}\n")] * 2


def test_the_help_names_all_commands_and_options_that_jobs_have(call):
    done = call("--help")
    assert done.code == 0
    for command in (*JOBS, "dialects", "explain", "version"):
        # Help puts what explains a long name on the next line.
        assert re.search(rf"\n    {command}\s", done.out)
    for job in JOBS:
        option = re.search(rf" {job} .*?: (--\w+) ", " ".join(done.out.split()))[1]
        assert f"\n  {option} " in call(job, "--help").out
    assert (
        call("evaluate", "--config", "no.toml")
        .scene.splitlines()[-1]
        .startswith("stderr: evaluate: wrong config: no.toml")
    )


def test_what_needs_no_spark_does_not_load_it():
    """Nor does a configuration that is wrong."""
    code = (
        "import contextlib, io, sys\nfrom spark_rankeval.jobs.command import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "    codes = [main(['explain', 'ndcg@10']), main(['dialects'])]\n"
        "    loaded = {'pyspark'} & set(sys.modules)\n"
        "    codes += [main([job, '--config', 'nowhere.toml']) for job in ('evaluate', 'compare')]\n"
        "print(codes, loaded, 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[0, 0, 2, 2] set() False\n", "")


def test_dialects_are_a_line_each(call):
    lines = call("dialects").out.splitlines()
    assert [line.split()[0] for line in lines] == [dialect.name for dialect in DIALECTS]
    assert lines[2] == "mllib-4.3 (mllib)                  4 metrics     Spark's RankingMetrics and RankingEvaluator"


@pytest.mark.parametrize(
    "words",
    [
        # A metric and what dialects make of it; a metric as a dialect has it, where what was asked for wins.
        "MAP@10",
        "ndcg(gain=linear)@10 --dialect mllib",
    ],
)
def test_explain_says_what_a_metric_is(call, golden, words):
    golden(call("explain", *words.split()).scene)


def test_explain_takes_what_stands_for_several_metrics_and_says_what_it_cannot_explain(call, golden):
    several = [call("explain", asked).out.split("\n\n")[0] for asked in ("ndcg@1..20", "precision_recall_curve")]
    wrong = [call("explain", *asked.split()) for asked in (
        "ngcd@10", "ndcg@10 --dialect mlib", "rbp --dialect mllib", "ndcg@0",
    )]  # fmt: skip
    assert [(done.code, done.out, len(done.lines)) for done in wrong] == [(2, "", 1)] * len(wrong)
    # Lists of all names grow.
    golden("\n".join([*several, *(re.sub("available: .*|it has .*", "…", done.err.strip()) for done in wrong)]))
    assert "\nmllib-4.3           has no such metric" in call("explain", "rbp").out
