"""How fast the evaluation is, as ratios to what it cannot avoid and to other evaluators, and the targets that it is held to.

`jobs/benchmark.py` is the command; nothing of this is installed with the package.
"""
