"""A program that cannot be used, or says nothing that kiln understands, is told in a sentence."""

import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.command.program import Program
from kiln.cluster_drivers.command.protocol import Nonsense, Verb
from kiln.clusters.exceptions import ClusterDriverError


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / 'program'

    def program(self, text='', mode=0o755):
        self.path.write_text(f'#!/bin/sh\n{text}\n')
        self.path.chmod(mode)
        return Program(driver='acme_v1', path=self.path)

    def test_a_file_that_cannot_be_run_says_why(self):
        self.assertEqual('', self.program().unusable())
        self.assertIn('not executable; chmod +x it', self.program(mode=0o644).unusable())
        self.assertIn('kiln does not run program', self.program(mode=0o777).unusable())
        self.program()
        link = self.folder / 'link'
        link.symlink_to(self.path)
        self.assertIn('is a link', Program(driver='acme_v1', path=link).unusable())
        lost = Program(driver='acme_v1', path=self.folder / 'lost')
        self.assertEqual('there is no file lost', lost.unusable())
        with self.assertRaisesRegex(ClusterDriverError, 'driver acme_v1 cannot run: there is no'):
            lost.ask(Verb.STATUS, {}, b'')

    def test_a_program_that_cannot_describe_itself_is_nonsense(self):
        for text in ('exit 3', 'echo nonsense', 'exit 0'):
            with self.subTest(text), self.assertRaises(Nonsense):
                self.program(text).describe()
