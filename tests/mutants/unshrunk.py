"""A plugin of pytest: the first random case that fails is enough to know, and to make it smaller takes most of the time."""

from hypothesis import Phase, settings

settings.register_profile("unshrunk", phases=set(Phase) - {Phase.shrink, Phase.explain})
settings.load_profile("unshrunk")
