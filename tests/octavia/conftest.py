"""pytest configuration: warnings of Octavia's own imports are not errors."""


def pytest_configure(config):
    config.addinivalue_line('filterwarnings', 'default')
