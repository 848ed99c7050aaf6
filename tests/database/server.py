"""A server of PostgreSQL on loopback, which an ordinary user starts, and its client psql."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from helpers.processes import free_port

BIN, JAR = (os.environ.get(name, "") for name in ("POSTGRES_BIN", "POSTGRES_JAR"))
USER = "evaluation"


def ordinary_user():
    """Who starts the server: it refuses root, so that the user of Debian's package takes root's place."""
    return pwd.getpwnam("postgres") if os.getuid() == 0 else pwd.getpwuid(os.getuid())


class Server:
    """A running server.

    Attributes:
        url: of its database, for JDBC.
    """

    def __init__(self, port):
        self._port = port
        self.url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"

    def client(self, *arguments):
        """A process of psql whose input is open."""
        command = [
            f"{BIN}/psql", "--host=127.0.0.1", f"--port={self._port}", f"--username={USER}", "--dbname=postgres", "--no-psqlrc",
            "--tuples-only", "--no-align", "--quiet", "--set=ON_ERROR_STOP=1", *arguments,
        ]  # fmt: skip
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def run(self, statements, *arguments):
        """What statements print, line by line; an error of the server is a RuntimeError."""
        client = self.client(*arguments)
        printed, errors = client.communicate(statements, timeout=60)
        if client.returncode:
            raise RuntimeError(errors)
        return printed.splitlines()

    def waiting(self, event="advisory"):
        """How many transactions wait for a lock of a kind."""
        (count,) = self.run(f"SELECT count(*) FROM pg_stat_activity WHERE wait_event = '{event}'")
        return int(count)

    @contextmanager
    def closed_gate(self, table):
        """While the block runs, an insert of the metric rr into a table waits, with the rows before it in its transaction."""
        self.run(
            f"""
            CREATE OR REPLACE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END';
            CREATE OR REPLACE TRIGGER gate BEFORE INSERT ON {table} FOR EACH ROW WHEN (NEW.metric = 'rr')
                EXECUTE FUNCTION wait();
            """
        )
        keeper = self.client()
        keeper.stdin.write("SELECT pg_advisory_lock(1);\n")
        keeper.stdin.flush()
        keeper.stdout.readline()
        try:
            yield
        finally:
            # The lock ends with its session.
            keeper.communicate()


@contextmanager
def running_server():
    """A new server at a free port; it ends with the block, and so do its files."""
    owner = ordinary_user()
    folder, port = Path(tempfile.mkdtemp(prefix="postgres-")), free_port()
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    settings = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "fsync": "off",
        # A transaction whose client is dead ends at once, also if it waits.
        "client_connection_check_interval": "100ms",
    }
    told = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    identity = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
    made = [f"{BIN}/initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(made, check=True, capture_output=True, cwd=folder, **identity)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [f"{BIN}/postgres", "-D", folder / "data", *told], cwd=folder, stdout=log, stderr=log, **identity
        )
        try:
            until = time.monotonic() + 60
            ready = [f"{BIN}/pg_isready", "--quiet", "--host=127.0.0.1", f"--port={port}"]
            while subprocess.run(ready, check=False).returncode:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((folder / "log").read_text())
                time.sleep(0.1)
            yield Server(port)
        finally:
            # Immediate: nothing of the data is worth a checkpoint.
            process.send_signal(3)
            process.wait(30)
            shutil.rmtree(folder)
