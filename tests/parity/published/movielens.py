"""MovieLens 100k as RecBole's package carries it: its ratings in the order of the original file."""

from importlib.metadata import distribution

RATINGS = distribution("recbole").locate_file("recbole/dataset_example/ml-100k/ml-100k.inter")
