"""Shell scripts that tests use as hooks."""

import pathlib
import stat
import tempfile
import unittest


class ProgramCase(unittest.TestCase):
    """Test case that writes programs into ``folder``."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def program(self, body, name='hook'):
        """Write a shell script; return its path."""
        return write_program(self.folder / name, body)


def write_program(path, body):
    """Write an executable shell script; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n{body}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
