"""MTEB's file of predictions, as its tasks write it; a measure is the folder to write.

A query's value is how many of its documents the file has, and the mean is how many there are.
"""

import json
from pathlib import Path
from types import SimpleNamespace

from systems.modules import skip_start, stand_in
from systems.tables import run_of

skip_start("mteb", "mteb.abstasks", "mteb._hf_integration")
for name, contents in {
    "huggingface_hub": (), "yaml": (), "datasets": ("ClassLabel", "Dataset", "DatasetDict", "Value", "load_dataset"),
    "tqdm": (), "tqdm.auto": ("tqdm",), "mteb._hf_integration.eval_model": ("HFEvalMeta", "HFEvalTaskConfig"),
    "mteb._hf_integration.hf_hub_utils": ("_get_file_on_hub",), "mteb.languages": ("LanguageScripts",),
    "mteb._log_once": ("LogOnce",), "mteb._set_seed": ("_set_seed",), "mteb.timing": ("TimingStack",),
    "mteb.models": ("CrossEncoderProtocol", "EncoderProtocol", "SearchProtocol"),
}.items():  # fmt: skip
    stand_in(name, **dict.fromkeys(contents, lambda *_, **__: None))

from mteb.abstasks.abstask import AbsTask  # noqa: E402 - after what it must not import

PACKAGES = ("mteb",)
POPULATION = "queries with predictions"


class Task(AbsTask):
    """A task that only writes predictions."""

    metadata = SimpleNamespace(name="Parity")
    __init__ = _evaluate_subset = _calculate_descriptive_statistics_from_split = lambda *_, **__: None


def run(users, measures):
    (folder,) = measures
    model = SimpleNamespace(mteb_model_meta=SimpleNamespace(name="parity/model", revision=None))
    for subset, split in (("default", "test"), ("default", "dev"), ("other", "test")):
        Task()._save_task_predictions(run_of(users), model, Path(folder), hf_split=split, hf_subset=subset)
    written = json.loads(Path(folder, "Parity_predictions.json").read_text())["default"]["test"]
    counts = {query: len(scores) for query, scores in written.items()}
    return {folder: (counts, sum(counts.values()))}
