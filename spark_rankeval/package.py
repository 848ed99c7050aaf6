"""The version of the package, and the package as a zip for executors. It needs Python alone, so that `make dist` installs nothing."""

from __future__ import annotations

import io
import os
import zipfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

__version__ = "0.1.0"

_NAME = "spark_rankeval"
#: The earliest time that a zip can hold.
_DATE = (1980, 1, 1, 0, 0, 0)


def package_zip(folder: str | os.PathLike[str]) -> str:
    """Write the running package as ``spark_rankeval.zip``, for executors on which it is not installed.

    The same package gives the same bytes every time. Spark refuses a second file of the same name only if its content
    differs, so a notebook cell that sends the zip can run again.

    Executors need numpy, pandas and pyarrow beside it. Pass the zip to ``spark.addArtifacts(path, pyfile=True)`` on Spark Connect, or in
    classic sessions since Spark 4. Else pass it to ``spark.sparkContext.addPyFile(path)`` or ``spark-submit --py-files``.

    Examples:
        >>> path = package_zip(folder)
        >>> path.removeprefix(folder)
        '/spark_rankeval.zip'

    Args:
        folder: where to write it; a folder on this machine.

    Returns:
        the path of the zip.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, resources.files(_NAME), PurePosixPath(_NAME))
    path = os.path.join(folder, f"{_NAME}.zip")  # Spark takes a string
    # The file is written at the end, because the package may be running from it.
    Path(path).write_bytes(content.getvalue())
    return path


def _add(archive: zipfile.ZipFile, folder: Traversable, name: PurePosixPath) -> None:
    """Add a folder of sources, which may itself be inside a zip, so that equal sources give equal bytes."""
    for part in sorted(folder.iterdir(), key=lambda part: part.name):
        if part.is_dir():
            if part.name != "__pycache__":
                _add(archive, part, name / part.name)
        elif part.name.endswith((".py", ".typed", ".html", ".css", ".json")):
            entry = zipfile.ZipInfo(str(name / part.name), date_time=_DATE)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # Unix, whatever machine writes it
            archive.writestr(entry, part.read_bytes(), zipfile.ZIP_DEFLATED)
