"""Hypothesis without limits of time, where tests are recorded and the machine is busy.

Import it before the tests; they are the same each time, as a mutant must not be caught by luck.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    'unhurried',
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile('unhurried')
