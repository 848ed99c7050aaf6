"""The command ``spark-rankeval``, through a shell and in this process."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_rankeval import __version__
from spark_rankeval.cli import main
from spark_rankeval.dialects.published import DIALECTS

ROOT = Path(__file__).parents[1]
START = "import sys\nfrom spark_rankeval.cli import main\nsys.exit(main())"


def shell(*arguments, code=START):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ
    )


@pytest.fixture
def call(capsys):
    """The command in this process: its exit code and what it printed."""

    def run(*arguments):
        try:
            code = main(arguments)
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        return SimpleNamespace(exit_code=code, output=printed.out, stdout=printed.out, stderr=printed.err)

    return run


def test_the_script_is_the_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["spark-rankeval"] == "spark_rankeval.cli:main"
    done = shell("--help")
    assert done.returncode == 0
    for command in ("evaluate", "compare", "compare_groups", "trend", "dialects", "explain", "version"):
        # Help puts what explains a long name on the next line.
        assert re.search(rf"\n    {command}\s", done.stdout)


def test_the_version_is_told_both_ways(call):
    told = [call(asked) for asked in ("version", "--version")]
    assert [(done.exit_code, done.output) for done in told] == [(0, f"{__version__}\n")] * 2


def test_the_help_names_options_that_jobs_have(call, capsys):
    helped = " ".join(call("--help").output.split())
    for job in ("evaluate", "compare", "compare_groups", "trend"):
        option = re.search(rf" {job} .*?: (--\w+) ", helped).group(1)
        with pytest.raises(SystemExit):
            main([job, "--help"])
        assert f"\n  {option} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("ndcg@1..20", "ndcg@1..20 is 20 metrics, from ndcg@1 to ndcg@20\n\nndcg\n"),
        (
            "precision_recall_curve",
            "precision_recall_curve is 101 metrics, from iprec(recall=0.0) to iprec(recall=1.0)\n\niprec\n",
        ),
    ],
)
def test_explain_takes_what_stands_for_several_metrics(call, asked, told):
    done = call("explain", asked)
    assert (done.exit_code, done.output[: len(told)]) == (0, told)


def test_what_needs_no_spark_does_not_load_it():
    code = (
        "import contextlib, io, sys\nfrom spark_rankeval.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    codes = main(['explain', 'ndcg@10']), main(['dialects'])\n"
        "print(codes, {'pyspark', 'pandas'} & set(sys.modules))"
    )
    done = shell(code=code)
    assert (done.stdout, done.stderr) == ("(0, 0) set()\n", "")


def test_dialects_are_a_line_each(call):
    lines = call("dialects").output.splitlines()
    assert [line.split()[0] for line in lines] == [dialect.name for dialect in DIALECTS]
    assert lines[2] == "mllib-4.3 (mllib)                  4 metrics     Spark's RankingMetrics and RankingEvaluator"


def test_explain_says_what_a_metric_is_and_what_dialects_make_of_it(call):
    said = call("explain", "MAP@10").output
    assert said.startswith("ap\n\nThe precision at the rank of each hit")
    for part in (
        "Its mean over users is MAP.",
        "Source: Manning, Raghavan, Schütze",
        "also map, average_precision",
        "  decay = 1.0                 w_j = decay^(j−1)",
        "\n  ap(relevance_threshold=None, ties='order', denominator='hits'",
        "\n  sklearn-1.9.1       equal scores share one precision; undefined values count as 0;",
        "\n  default             as above",
    ):
        assert part in said, part
    assert "\n  mllib-4.3           has no such metric" in call("explain", "rbp").output


def test_explain_in_a_dialect_resolves_the_metric_and_what_was_asked_wins(call):
    said = call("explain", "ndcg(gain=linear)@10", "--dialect", "mllib").output
    assert "\nndcg(gain='linear')@10 in dialect mllib-4.3: Spark's RankingMetrics" in said
    lines = {line.split("=")[0].strip(): " ".join(line.split()) for line in said.splitlines() if " = " in line}
    assert lines["gain"].startswith("gain = 'linear' as asked")
    assert lines["discount"] == "discount = 'ln' by the dialect discount: natural logarithm"
    assert lines["ties"].startswith("ties = 'order' by default")
    assert "\n  the mean is over all users, so one user without a value makes it undefined\n" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ngcd@10"], "explain: no metric is called 'ngcd' (in 'ngcd@10'); did you mean 'ndcg'"),
        (["ndcg@10", "--dialect", "mlib"], "explain: no dialect is called 'mlib'; did you mean 'mllib'"),
        (["rbp", "--dialect", "mllib"], "explain: dialect 'mllib-4.3': Spark's RankingMetrics"),
        (["ndcg@0"], "explain: ndcg: the cutoff k must be a whole number from 1 on"),
    ],
)
def test_what_cannot_be_explained_is_one_line_and_2(call, arguments, said):
    done = call("explain", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(said)


@pytest.mark.night
@pytest.mark.parametrize("job", ["evaluate"])
def test_a_job_has_the_options_and_exit_codes_of_its_file(job, tmp_path):
    helped = shell(job, "--help")
    file = subprocess.run(
        [sys.executable, ROOT / "jobs" / f"{job}.py", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert (helped.returncode, helped.stdout) == (0, file.stdout)
    wrong = shell(job, "--config", str(tmp_path / "no.toml"))
    assert wrong.returncode == 2
    assert wrong.stderr.startswith(f"{job}: wrong config: {tmp_path}/no.toml: No such file")
