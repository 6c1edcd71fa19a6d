"""TaskFlow jobboards on real servers: the behaviour that kiln relies on."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from kiln.db.store import open_store
from kiln.engine.work_sources.boards import BoardAway
from kiln.engine.work_sources.opening import TlsFiles, open_board, open_source, parse
from tests.functional.conductors.boards import (
    EtcdServer,
    RedisServer,
    SafeZookeeperServer,
    ZookeeperServer,
)
from tests.functional.db.servers import shared

#: The shortest that all of them accept: two ticks of ZooKeeper, whole seconds of etcd.
CLAIM_S = 1
#: For claims that are not to expire, however late a busy machine extends them.
KEPT_S = 60
PATIENCE_S = 180

CONNECTING = """
import json, sys
from kiln.engine.work_sources.opening import TlsFiles, open_board, parse
where, files = sys.argv[1], TlsFiles(**json.loads(sys.argv[2]))
open_board(parse(where, files), owner='x', claim_s=1).connect(print)
"""


class Boards:
    """Tests on a board of ``server``."""

    server = None

    @classmethod
    def setUpClass(cls):
        cls.bulletin = shared(cls.server)

    def connect(self, owner, *, claim_s=KEPT_S):
        path = self.id().rpartition('.')[2]
        board = self.board(f'{self.bulletin.url}/{path}', owner, claim_s)
        self.posted = threading.Event()
        board.connect(self.posted.set)
        self.addCleanup(board.close)
        return board

    def board(self, url, owner, claim_s):
        return open_board(parse(url), owner=owner, claim_s=claim_s)

    def until(self, so):
        end = time.monotonic() + PATIENCE_S
        while not (found := so()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        return found

    def test_a_job_has_one_owner_at_a_time_and_is_gone_once_consumed(self):
        one, two = self.connect('one'), self.connect('two')
        one.post('c-web')
        (job,) = self.until(two.free)
        self.assertEqual('c-web', job.cluster_id)
        mine = one.claim(one.free()[0])
        self.assertIsNone(two.claim(job))
        self.assertEqual((frozenset({'c-web'}), ()), (two.posted(), two.free()))
        two.consume(job)
        self.assertEqual(frozenset({'c-web'}), two.posted())
        one.consume(mine)
        self.assertEqual((frozenset(), ()), (two.posted(), two.free()))
        # Once more, while the other connection has not noticed the change.
        one.consume(mine)
        self.assertIsNone(two.claim(job))

    def test_a_claim_that_is_extended_outlasts_its_term(self):
        self.outlast(claims=1)

    def test_a_job_that_is_claimed_again_outlasts_its_term(self):
        self.outlast(claims=2)

    def outlast(self, claims):
        """Check that the last of some claims of one job is kept for longer than its term.

        A claim that a busy machine extended too late proves nothing: then try twice the term.
        """
        term_s = CLAIM_S
        while not self._outlasts(claims, term_s):
            term_s *= 2
            self.assertLess(term_s, PATIENCE_S)

    def _outlasts(self, claims, term_s):
        one, two = self.connect('one', claim_s=term_s), self.connect('two')
        name = f'c-web{term_s}'
        one.post(name)
        for number in range(1, claims + 1):
            self.assertIn(name, {job.cluster_id for job in two.free()})
            began = time.monotonic()
            mine = one.claim(next(job for job in one.free() if job.cluster_id == name))
            # etcd rounds one second up to two.
            end = began + 3 * term_s if number == claims else began
            if not self._kept(one, two, mine, term_s, began, end):
                return False
            if number < claims:
                one.abandon(mine)
        return True

    def _kept(self, one, two, job, term_s, kept_at, end):
        """Keep a claim until the end; return False if one extension might have been too late."""
        while True:
            began = time.monotonic()
            try:
                kept = one.keep(job)
            except BoardAway:
                kept = False
            free = job.cluster_id in {other.cluster_id for other in two.free()}
            now = time.monotonic()
            if now > kept_at + term_s:
                return False
            self.assertEqual((True, False), (kept, free))
            if now > end:
                return True
            kept_at = began
            time.sleep(CLAIM_S / 4)

    def test_closed_and_unreachable_boards_report_errors(self):
        board = self.connect('one')
        board.close()
        board.close()
        with self.assertRaises(BoardAway):
            board.free()


class Expiring(Boards):
    """Boards whose claims have a duration of their own."""

    def test_a_silent_owners_claim_ends_and_it_cannot_extend_the_next(self):
        one, two = self.connect('one', claim_s=CLAIM_S), self.connect('two')
        one.post('c-web')
        former = one.claim(one.free()[0])
        self.until(two.free)
        self.assertFalse(one.keep(former))
        present = two.claim(two.free()[0])
        self.assertFalse(one.keep(former))
        one.abandon(former)
        one.consume(former)
        self.assertTrue(two.keep(present))
        two.abandon(present)
        three = self.connect('three', claim_s=CLAIM_S)
        three.claim(three.free()[0])
        began = time.monotonic()
        # The late owner does not extend the claim of the other owner.
        while not one.free():
            self.assertFalse(one.keep(former))
            self.assertLess(time.monotonic() - began, PATIENCE_S)
            time.sleep(0.1)


class OnZookeeper(Boards, unittest.TestCase):
    server = ZookeeperServer

    def test_a_board_notifies_of_posts(self):
        self.connect('one').post('c-web')
        self.assertTrue(self.posted.wait(PATIENCE_S))

    def test_the_claim_of_an_ended_session_is_free(self):
        one, two = self.connect('one'), self.connect('two')
        one.post('c-web')
        one.claim(one.free()[0])
        one.close()
        self.until(two.free)


class OnSafeZookeeper(OnZookeeper):
    server = SafeZookeeperServer

    def board(self, url, owner, claim_s):
        return open_board(parse(url, self.bulletin.files), owner=owner, claim_s=claim_s)

    def test_an_untrusted_server_is_not_used(self):
        files = self.bulletin.files
        wrong = (TlsFiles(ca=files.ca), dataclasses.replace(files, ca=files.cert))
        # Side by side, since each tries for ten seconds.
        for one, process in [(one, self._connecting(one)) for one in wrong]:
            with self.subTest(one):
                _, said = process.communicate(timeout=PATIENCE_S)
                self.assertIn('BoardAway', said.splitlines()[-1])

    def _connecting(self, files):
        """Start a process of its own, to check what it leaves behind."""
        process = subprocess.Popen(
            [sys.executable, '-c', CONNECTING, self.bulletin.url,
             json.dumps(dataclasses.asdict(files))],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process


class OnEtcd(Expiring, unittest.TestCase):
    server = EtcdServer


class OnRedis(Expiring, unittest.TestCase):
    server = RedisServer


class Outages:
    """A board that becomes unavailable and comes back, below a source."""

    server = None

    def test_an_outage_is_logged_once_and_the_board_used_again(self):
        bulletin = self.server()
        self.addCleanup(bulletin.close)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        store = self.enterContext(open_store(f'sqlite:///{pathlib.Path(folder, "kiln.db")}'))
        source = open_source(bulletin.url, store, claim_s=CLAIM_S)
        self.addCleanup(source.close)
        woken = threading.Event()
        source.start(woken.set)
        source.offer('c-web')
        self.assertTrue(woken.wait(PATIENCE_S))
        with self.assertLogs('kiln.engine.work_sources', 'INFO') as logs:
            bulletin.stop()
            self.until(lambda: logs.output)
            self.assertEqual((), source.take())
            time.sleep(1.5)
            bulletin.start()
            source.offer('c-db')
            self.until(lambda: 'c-db' in source.take())
            self.until(lambda: len(logs.output) == 2)
        self.assertIn(bulletin.url, logs.output[0])
        self.assertIn('Until it is back, the store is polled', logs.output[0])
        self.assertIn('The jobboard is back', logs.output[1])

    until = Boards.until


class ZookeeperOutage(Outages, unittest.TestCase):
    server = ZookeeperServer


class EtcdOutage(Outages, unittest.TestCase):
    server = EtcdServer


class RedisOutage(Outages, unittest.TestCase):
    server = RedisServer
