"""What pyproject.toml cannot say: README for a package index, where links into the repository must be whole addresses."""

import re
from pathlib import Path

HOME = "https://github.com/spark-rankeval/spark-rankeval"


def readme_of_index() -> str:
    """README with links to files of the repository as addresses; pictures lead to their raw content."""
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{HOME}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{HOME}/blob/main/", text)


if __name__ == "__main__":
    from setuptools import setup

    setup(long_description=readme_of_index(), long_description_content_type="text/markdown")
