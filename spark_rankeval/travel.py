"""The package as a zip: what executors are given where it is installed for the driver alone."""

from __future__ import annotations

import os
import zipfile
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_NAME = "spark_rankeval"


def package_zip(folder: str | os.PathLike[str]) -> str:
    """Write the package that is running as ``spark_rankeval.zip``.

    Executors need numpy, pandas and pyarrow beside it, and nothing installed: give the zip to
    ``spark.addArtifacts(path, pyfile=True)`` (Spark Connect, and classic sessions since Spark 4), to
    ``spark.sparkContext.addPyFile(path)``, or to ``spark-submit --py-files``.

    Args:
        folder: where to write it; a folder on this machine.

    Returns:
        the path of the zip.
    """
    path = os.path.join(folder, f"{_NAME}.zip")  # a text is what Spark takes
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, resources.files(_NAME), PurePosixPath(_NAME))
    return path


def _add(archive: zipfile.ZipFile, folder: Traversable, name: PurePosixPath) -> None:
    """Add a folder of sources, which may be inside a zip itself; in the order of their names, so that a zip is like another."""
    for part in sorted(folder.iterdir(), key=lambda one: one.name):
        if part.is_dir():
            if part.name != "__pycache__":
                _add(archive, part, name / part.name)
        elif part.name.endswith((".py", ".typed", ".html", ".css")):
            archive.writestr(str(name / part.name), part.read_bytes())
