"""A standalone cluster on loopback, each of its machines a process of its own; and the Python that its executors have."""

import importlib.metadata
import json
import subprocess
import sys
import urllib.request
import venv
from contextlib import contextmanager
from pathlib import Path

from helpers.processes import SPARK_HOME, SparkProcess, free_port, plain_environment
from packaging.requirements import Requirement

#: All that an executor needs.
OF_EXECUTORS = ("pyspark", "numpy", "pandas", "pyarrow")


def bare_python(folder):
    """A virtual environment with what executors need, linked from this one, and nothing else; gives its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = Path(folder).glob("lib/python*/site-packages")
    for name in _with_requirements(OF_EXECUTORS):
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            link = packages / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))
    return Path(folder) / "bin" / "python"


def _with_requirements(names):
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            asked = map(Requirement, importlib.metadata.requires(name) or ())
            waiting += [one.name for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


class Cluster:
    """A master and its workers.

    Attributes:
        url: of the master, for ``--master``.
        workers: the processes of the workers; an executor is a child of one, in its process group.
    """

    def __init__(self, folder, *, cores=1, memory="1g"):
        self._folder, self._cores, self._memory = Path(folder), cores, memory
        self.workers = []
        port, self._page = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self.master = self._start(
            "master", "master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", self._page
        )

    def _start(self, name, program, *arguments):
        folder = self._folder / name
        folder.mkdir(parents=True)
        return SparkProcess(
            "spark-class", f"org.apache.spark.deploy.{program}", *arguments,
            log=folder / "log", cwd=folder, SPARK_DAEMON_MEMORY="256m", SPARK_NO_DAEMONIZE="1",
        )  # fmt: skip

    def add_worker(self):
        """Start a worker and wait until the master knows it."""
        name = f"worker-{len(self.workers)}"
        worker = self._start(
            name, "worker.Worker", "--host", "127.0.0.1", "--webui-port", 0, "--cores", self._cores,
            "--memory", self._memory, "--work-dir", self._folder / name / "work", self.url,
        )  # fmt: skip
        self.workers.append(worker)
        worker.wait_for(lambda: self.n_alive() == sum(one.is_running for one in self.workers))
        return worker

    def n_alive(self):
        """How many workers the master takes for alive."""
        return self.state()["aliveworkers"]

    def state(self):
        """What the master's page says, as a dict."""
        said = {}

        def answers():
            # The port is open before the page is there, and the page before its JSON.
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=10) as answer:
                    said.update(json.load(answer))
            except (OSError, json.JSONDecodeError):
                return False
            return True

        self.master.wait_for(answers)
        return said

    def executor_logs(self):
        """What the executors said on stderr, all of them."""
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("worker-*/work/*/*/stderr")))

    def log_of_workers(self):
        """What the workers said, those that are gone included."""
        return "\n".join(worker.log.read_text() for worker in self.workers)

    def submit(self, *arguments, cwd, driver_python, executor_python, **environment):
        """Run a program with spark-submit, its driver on this machine."""
        words = self._words(driver_python, executor_python, arguments)
        return subprocess.run(
            [str(SPARK_HOME / "bin" / "spark-submit"), *words], cwd=cwd, env=plain_environment(**environment),
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def start(self, *arguments, log, cwd, driver_python, executor_python, **environment):
        """The same without waiting for its end: the process, which is that of the driver and can be killed."""
        words = self._words(driver_python, executor_python, arguments)
        return SparkProcess("spark-submit", *words, log=log, cwd=cwd, **environment)

    def _words(self, driver_python, executor_python, arguments):
        told = {
            "spark.pyspark.python": executor_python, "spark.pyspark.driver.python": driver_python,
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "512m",
            "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
        }  # fmt: skip
        conf = [word for key, value in told.items() for word in ("--conf", f"{key}={value}")]
        return ["--master", self.url, *conf, *map(str, arguments)]

    def stop(self):
        """End all processes, workers first."""
        for process in [*self.workers, self.master]:
            process.stop()


@contextmanager
def standalone_cluster(folder, *, workers=2, cores=1, memory="1g"):
    """A running cluster; its processes are ended by their ids, however the block is left."""
    cluster = Cluster(folder, cores=cores, memory=memory)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()


def installed_in(python):
    """The names of the distributions that an interpreter finds, outside any folder of sources."""
    code = "import importlib.metadata as m; print(*{d.name.lower() for d in m.distributions()})"
    done = subprocess.run(
        [str(python), "-P", "-c", code], env=plain_environment(), capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


#: This interpreter, with the package in it for the driver's process alone.
DRIVER = {"driver_python": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])}
