"""A plugin of pytest: the first random case that fails is enough to know, and a slow machine is no fault."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "unshrunk",
    phases=set(Phase) - {Phase.shrink, Phase.explain},
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("unshrunk")
