"""What holds for all tests."""

from hypothesis import settings

# No test asserts how long something takes: the machine may be busy.
settings.register_profile('kiln', deadline=None)
settings.load_profile('kiln')
