"""Warnings are errors in kiln's tests, but not those of what Octavia imports."""


def pytest_configure(config):
    config.addinivalue_line('filterwarnings', 'default')
