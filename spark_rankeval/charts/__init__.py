"""Charts of figures that others have computed; Altair's, so that a caller can change them. Needs the extra ``report``."""

from __future__ import annotations

from spark_rankeval.charts.curves import curve_chart
from spark_rankeval.charts.forest import forest_chart
from spark_rankeval.charts.histograms import Bin, Histogram, histogram_chart
from spark_rankeval.charts.marks import Drawing, Estimate
from spark_rankeval.charts.quantiles import Spread, quantile_chart

__all__ = [
    "Bin",
    "Drawing",
    "Estimate",
    "Histogram",
    "Spread",
    "curve_chart",
    "forest_chart",
    "histogram_chart",
    "quantile_chart",
]
