"""An evaluation as one HTML file that needs nothing beside it: no script, no font, no network."""

from __future__ import annotations

from spark_rankeval.report.contents import Contents, Gate

__all__ = ["Contents", "Gate"]
