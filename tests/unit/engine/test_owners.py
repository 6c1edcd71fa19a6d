"""Owners of leases that died on this host are known by their names."""

import os
import signal
import socket
import subprocess
import sys
import unittest

from kiln.engine.owners import has_died, host, new_owner

OWNER = 'from kiln.engine.owners import new_owner; print(new_owner(), flush=True); input()'


class Owners(unittest.TestCase):
    def begun(self):
        process = subprocess.Popen(
            [sys.executable, '-c', OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.communicate)
        return process, process.stdout.readline().strip()

    def test_an_owner_in_this_process_is_alive_and_its_name_is_its_own(self):
        names = {new_owner() for _ in range(9)}
        self.assertEqual(9, len(names))
        for name in names:
            self.assertTrue(name.startswith(f'{socket.gethostname()}.{os.getpid()}.'))
            self.assertTrue(name.startswith(f'{host()}.'))
            self.assertFalse(has_died(name) or has_died(f'{name}.watch'))

    def test_an_owner_whose_process_was_killed_has_died_before_anybody_waits_for_it(self):
        process, name = self.begun()
        self.assertFalse(has_died(name))
        process.send_signal(signal.SIGSTOP)
        self.assertFalse(has_died(name))
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assertTrue(has_died(name) and has_died(f'{name}.watch'))
        process.communicate()
        self.assertTrue(has_died(name))

    def test_a_later_process_with_the_same_number_is_not_taken_for_it(self):
        host_name, pid, mark = new_owner().rsplit('.', 2)
        other = mark[:8] + ('0' if mark[8] != '0' else '1') + mark[9:]
        self.assertTrue(has_died(f'{host_name}.{pid}.{other}'))

    def test_an_owner_of_another_boot_or_container_or_of_an_older_kiln_can_be_alive(self):
        host_name, pid, mark = new_owner().rsplit('.', 2)
        other = ('0' if mark[0] != '0' else '1') + mark[1:]
        for name in (f'{host_name}.1.{other}', f'{host_name}.{pid}.1a2b3c4d', 'kit', '', 'a.b.c'):
            self.assertFalse(has_died(name), name)
