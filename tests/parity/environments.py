"""Where each system lives, and how it is called from the tests."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from parity.users import as_json

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

# The environment of a system: .venv-parity-<environment>, made from requirements-<environment>.txt by `make parity`.
ENVIRONMENT_OF = {
    "pytrec_eval": "trec", "ir_measures": "trec", "ranx": "ranx", "sklearn": "sklearn", "scipy": "sklearn",
    "ranked_rows": "sklearn", "judges": "sklearn", "probabilities": "sklearn", "lenskit": "lenskit", "lenskit_2025_8": "lenskit-2025.8",
    "torchmetrics": "torchmetrics", "rectools": "rectools", "recommenders": "recommenders", "replay": "replay",
    "recbole": "recbole", "replay_beyond": "replay", "replay_splits": "replay", "recommenders_beyond": "recommenders",
    "rectools_beyond": "rectools", "obp": "obp", "ndeval": "ndeval", "beir": "beir", "mteb": "mteb",
    "mteb_confidence": "mteb", "beir_files": "beir", "mteb_files": "mteb", "azure": "azure", "mlflow": "mlflow",
    "ragas": "ragas", "haystack": "haystack", "ppi": "ppi", "lightgbm": "lightgbm", "xgboost": "xgboost",
    "catboost": "catboost",
    # These are scripts in published/.
    "recommenders_table": "published", "cornac_table": "published", "open_bandit": "obp",
}  # fmt: skip


def run(system, users, measures):
    """What a system returns for these users, as `runner.py` describes it.

    A system that is not installed or that fails raises: nothing is skipped.
    """
    with tempfile.TemporaryDirectory() as folder:
        request, reply = Path(folder, "request.json"), Path(folder, "reply.json")
        request.write_text(f'{{"users": {as_json(users)}, "measures": {json.dumps(list(measures))}}}')
        _call(system, folder, HERE / "runner.py", system, request, reply)
        return json.loads(reply.read_text())


def written(system):
    """The arrays that a script of published/ writes, by name."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "arrays.npz")
        _call(system, folder, HERE / "published" / f"{system}.py", file)
        with np.load(file) as arrays:
            return dict(arrays)


def _call(system, folder, *command):
    """Run a script with its arguments in the system's environment."""
    python = ROOT / f".venv-parity-{ENVIRONMENT_OF[system]}" / "bin" / "python"
    if not python.exists():
        msg = f"{system} is not installed: {python} is missing; `make parity` makes it"
        raise FileNotFoundError(msg)
    # What the tests run in is not what the system runs in.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    if done.returncode:
        msg = f"{system} failed:\n{done.stderr}"
        raise RuntimeError(msg)
