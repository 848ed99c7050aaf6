"""The package as what travels: a zip of its sources, as `make dist` builds it."""

import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def write_package_zip(folder):
    """Write spark_rankeval.zip into a folder and give its path."""
    path = Path(folder) / "spark_rankeval.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for source in sorted((ROOT / "spark_rankeval").rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                archive.write(source, source.relative_to(ROOT))
    return path
