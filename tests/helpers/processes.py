"""Spark's own processes, started from the pip package on loopback and ended by their process id."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
# The classes of Spark as a JVM has them in memory, which tests/class_archive.py writes: Spark is there in five seconds instead of
# eight. It belongs to one environment and one Java; with another, or none, the JVM reads the classes as always.
CLASS_ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
# For the sessions of the tests: a query that runs once is not worth the second compiler, nor threads that collect garbage.
# Its code of a whole run needs more room than that compiler reserves by itself; else Java throws code away and compiles it again.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmn512m -Xlog:disable"
SUBMIT_OPTIONS = f"{FIRST_COMPILER} -XX:SharedArchiveFile={CLASS_ARCHIVE} -Xshare:auto"

# Lines that the JVM and Spark write while they start, before a log level of theirs is set.
STARTUP = re.compile(
    r"WARNING: |Picked up |Using Spark's default log4j|Setting (?:Spark|default) log level|To adjust logging level|netlib-"
    r"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:WARN Utils|WARN NativeCodeLoader|INFO SparkContext): "
)


def without_startup(stderr):
    """What a process wrote to stderr, without what Spark writes while it starts."""
    return "".join(line for line in stderr.splitlines(True) if not STARTUP.match(line))


def free_port():
    """A port that no process listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def plain_environment(**more):
    """This process's environment without what leads Spark or Python to the tests' own session, interpreter or package."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_", "PYTHON"))}
    told = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": SUBMIT_OPTIONS}
    return {**kept, **told, **more}


class SparkProcess:
    """One of Spark's programs in a process of its own.

    The script of the pip package replaces itself by Java, so that the process id is that of the JVM; whatever it starts is in its
    process group.
    """

    def __init__(self, script, *arguments, log, cwd, home=SPARK_HOME, **environment):
        self.log = Path(log)
        self._output = self.log.open("w")
        self._process = subprocess.Popen(
            [str(home / "bin" / script), *map(str, arguments)],
            cwd=cwd, env=plain_environment(SPARK_HOME=str(home), **environment), stdin=subprocess.DEVNULL,
            stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    @property
    def pid(self):
        return self._process.pid

    @property
    def is_running(self):
        return self._process.poll() is None

    def wait_for(self, condition, seconds=90):
        """Wait until a condition holds.

        Raises:
            RuntimeError: the process ended before, or it took too long; with the end of its log.
        """
        until = time.monotonic() + seconds
        while not condition():
            if not self.is_running or time.monotonic() > until:
                what = "took too long" if self.is_running else f"ended with {self._process.returncode}"
                msg = f"{self._process.args[1]} {what}:\n{self.log.read_text()[-3000:]}"
                raise RuntimeError(msg)
            time.sleep(0.1)

    def listens(self, port):
        """Whether somebody answers at a port of loopback."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def kill(self):
        """End the process and what it started at once, as a crashed machine does."""
        self._signal_group(signal.SIGKILL)
        self._process.wait()
        self._output.close()

    def stop(self, seconds=20):
        """End the process in order, and with force whatever is left of it."""
        if self.is_running:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self.kill()

    def _signal_group(self, number):
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return
