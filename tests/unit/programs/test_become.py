"""The last step before a program becomes another user first, in its home, or says why not.

The calls of the system are replaced: nobody but root can become another user, and the test
would become the program.
"""

import os
import signal
import unittest
from unittest import mock

from kiln.programs import become


class Become(unittest.TestCase):
    def setUp(self):
        self.calls = []
        for name in ('setgroups', 'setresgid', 'setresuid', 'chdir', 'execv'):
            self.enterContext(
                mock.patch.object(os, name, lambda *given, name=name: self.called(name, *given))
            )
        self.enterContext(mock.patch.object(
            signal, 'signal', lambda *given: self.called('signal', *given)
        ))  # fmt: skip
        self.enterContext(mock.patch.dict(os.environ, {'HOME': '/its/home'}))
        self.unreachable = False

    def called(self, name, *given):
        self.calls.append((name, *given))
        if name == 'chdir' and self.unreachable:
            raise PermissionError(13, 'Permission denied')

    def test_groups_come_first_and_the_program_last(self):
        become.main('7', '8', '8,9', '/bin/x', 'a')
        self.assertEqual(
            [
                ('setgroups', [8, 9]), ('setresgid', 8, 8, 8), ('setresuid', 7, 7, 7),
                ('chdir', '/its/home'), ('signal', signal.SIGPIPE, signal.SIG_DFL),
                ('signal', signal.SIGXFSZ, signal.SIG_DFL), ('execv', '/bin/x', ('/bin/x', 'a')),
            ],
            self.calls,
        )  # fmt: skip

    def test_a_home_that_the_user_cannot_reach_is_told(self):
        self.unreachable = True
        with self.assertRaisesRegex(SystemExit, 'user 7 cannot reach /its/home: Permission'):
            become.main('7', '8', '8', '/bin/x')
        self.assertNotIn('execv', [name for name, *_ in self.calls])
