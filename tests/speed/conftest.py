"""The benchmarks stand at the top of the repository, beside the package that they measure."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
