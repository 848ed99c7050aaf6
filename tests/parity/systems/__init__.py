"""One module a system, which alone imports it; each runs in that system's environment, by `runner.py`."""
