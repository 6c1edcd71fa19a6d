"""A jobboard decides which conductor is first; what it loses is in the store."""

import threading

from kiln.clusters.exceptions import StoreError
from kiln.engine.work_sources.jobboard import JobboardSource
from tests.self_moving_clock import MovingTime
from tests.unit.db.case import StoreCase
from tests.unit.engine.work_sources.memory_board import Bulletin, MemoryBoard

CLAIM_S = 15.0
SWEEP_S = 30.0


class BoardCase(MovingTime, StoreCase):
    """Has a board, and sources on it that are started unless they only offer."""

    def setUp(self):
        super().setUp()
        self.bulletin = Bulletin(self.clock)
        self.woken = threading.Event()

    def source(self, owner='me', *, started=True, tells=True):
        source = JobboardSource(
            lambda: MemoryBoard(self.bulletin, owner, claim_s=CLAIM_S, tells=tells),
            self.store, claim_s=CLAIM_S, sweep_s=SWEEP_S, clock=self.clock,
        )  # fmt: skip
        # Used at once, so that no test depends on when it is created.
        source.take()
        self.addCleanup(source.close)
        if started:
            source.start(self.woken.set)
            self.until(lambda: self.clock.waiting)
        return source

    def pass_time(self, seconds):
        self.clock.sleep(seconds)
        # Other threads that woke at the same time are to be done with it, too.
        self.until(lambda: True)

    def claimed(self, owner, *cluster_ids):
        self.until(lambda: self.bulletin.owners() == dict.fromkeys(cluster_ids, owner))


class Sharing(BoardCase):
    def test_an_offered_cluster_is_posted_claimed_and_named_until_done(self):
        source = self.source()
        source.offer('c-web')
        self.claimed('me', 'c-web')
        self.until(self.woken.is_set)
        self.assertEqual([('c-web',)] * 2, [source.take() for _ in range(2)])
        source.done('c-web')
        self.until(lambda: not self.bulletin.names())
        self.assertEqual((), source.take())

    def test_a_cluster_with_a_job_gets_no_second_job(self):
        offering = self.source(started=False)
        for _ in range(2):
            offering.offer('c-web')
            offering.offer('c-db')
            self.until(lambda: len(self.bulletin.names()) >= 2 and self.clock.waiting)
        self.pass_time(3)
        self.assertEqual(['c-web', 'c-db'], self.bulletin.names())

    def test_only_one_of_two_conductors_gets_a_job(self):
        one, two = self.source('one'), self.source('two')
        self.bulletin.post('c-web')
        self.until(lambda: one.take() or two.take())
        self.pass_time(3)
        self.assertEqual([('c-web',)], [found for found in (one.take(), two.take()) if found])

    def test_a_source_that_only_offers_claims_nothing(self):
        offering = self.source(started=False)
        offering.offer('c-web')
        self.until(self.bulletin.names)
        self.pass_time(3)
        self.assertEqual({'c-web': ''}, self.bulletin.owners())
        self.assertEqual((), offering.take())

    def test_a_board_without_notifications_is_polled_once_a_second(self):
        source = self.source(tells=False)
        self.bulletin.post('c-web')
        began = self.clock.monotonic()
        self.until(source.take)
        self.assertLess(self.clock.monotonic() - began, 2.0)

    def test_the_last_offers_are_posted_before_the_board_is_left(self):
        offering = self.source(started=False)
        offering.offer('c-web')
        offering.close()
        self.assertEqual(['c-web'], self.bulletin.names())
        self.assertEqual(0, self.bulletin.open)
        offering.offer('c-late')
        offering.close()
        self.assertEqual(['c-web'], self.bulletin.names())

    def test_an_unused_source_does_not_connect(self):
        self.source(started=False).close()
        self.assertEqual(0, self.bulletin.connected)

    def test_work_submitted_while_a_job_is_finished_gets_a_new_job(self):
        source = self.source()
        self.create()
        source.offer('c-web')
        self.claimed('me', 'c-web')
        first = self.bulletin.notes[0]
        # Its operation has not ended: someone submitted it and found the first job.
        source.done('c-web')
        self.until(lambda: self.bulletin.names() == ['c-web'] and first not in self.bulletin.notes)

    def test_a_cluster_offered_again_while_its_job_is_finished_gets_a_job(self):
        offering = self.source(started=False)
        self.bulletin.post('c-web')

        def meanwhile():
            # The owner of the job is done with it, and someone submits more work.
            self.bulletin.notes.clear()
            offering.offer('c-web')

        self.bulletin.meanwhile = meanwhile
        offering.offer('c-web')
        self.until(lambda: self.bulletin.meanwhile is None and self.bulletin.names())
        self.assertEqual(['c-web'], self.bulletin.names())

    def test_a_job_of_a_paused_cluster_is_finished_and_not_posted_again(self):
        source = self.source()
        self.create()
        self.store.clusters.pause('c-web')
        source.offer('c-web')
        self.claimed('me', 'c-web')
        source.done('c-web')
        self.until(lambda: not source.take())
        self.pass_time(3)
        self.assertEqual([], self.bulletin.names())

    def test_a_job_that_was_not_claimed_cannot_be_finished(self):
        source = self.source()
        source.done('c-web')
        self.pass_time(3)
        self.assertEqual((), source.take())


class Claims(BoardCase):
    def test_a_claim_lasts_as_long_as_its_owner_holds_it(self):
        source = self.source()
        self.bulletin.post('c-web')
        self.claimed('me', 'c-web')
        for _ in range(40):
            self.pass_time(1.0)
            self.assertEqual({'c-web': 'me'}, self.bulletin.owners())
        self.assertIn('c-web', source.take())

    def test_the_job_of_a_dead_owner_goes_to_another(self):
        dead = MemoryBoard(self.bulletin, 'dead', claim_s=CLAIM_S)
        self.bulletin.post('c-web')
        dead.claim(dead.free()[0])
        self.source('alive')
        self.assertEqual({'c-web': 'dead'}, self.bulletin.owners())
        self.claimed('alive', 'c-web')

    def test_a_claim_that_was_lost_is_no_longer_named(self):
        source = self.source()
        self.bulletin.post('c-web')
        self.claimed('me', 'c-web')
        self.bulletin.notes[0].owner = 'another'
        self.bulletin.notes[0].until = self.clock.monotonic() + 1000
        with self.assertLogs('kiln.engine.work_sources.jobboard', 'INFO') as logs:
            self.until(lambda: not source.take())
        self.assertIn('The claim of cluster c-web on the jobboard is lost', logs.output[0])

    def test_a_closed_source_releases_its_claims(self):
        leaving = self.source('leaving')
        self.bulletin.post('c-web')
        self.claimed('leaving', 'c-web')
        leaving.close()
        self.assertEqual({'c-web': ''}, self.bulletin.owners())

    def test_a_second_job_of_one_cluster_waits_for_the_first(self):
        source = self.source()
        self.bulletin.post('c-web')
        self.bulletin.post('c-web')
        self.until(source.take)
        self.pass_time(3)
        self.assertEqual(['', 'me'], sorted(map(self.bulletin.owner, self.bulletin.notes)))
        source.done('c-web')
        self.until(lambda: len(self.bulletin.notes) == 1)
        self.until(source.take)


class GivenBack(BoardCase):
    """A cluster that cannot be worked on here can be worked on elsewhere."""

    def test_an_unwanted_job_goes_to_another_conductor(self):
        one = self.source('one')
        self.bulletin.post('c-web')
        self.claimed('one', 'c-web')
        self.assertEqual((), one.take({'c-web'}))
        self.claimed('', 'c-web')
        two = self.source('two')
        self.claimed('two', 'c-web')
        self.assertEqual((('c-web',), ()), (two.take(), one.take({'c-web'})))

    def test_an_unwanted_job_is_claimed_again_once_it_is_wanted(self):
        source = self.source()
        self.bulletin.post('c-web')
        self.bulletin.post('c-db')
        self.claimed('me', 'c-web', 'c-db')
        self.assertEqual(('c-db',), source.take({'c-web'}))
        self.until(lambda: self.bulletin.owners() == {'c-web': '', 'c-db': 'me'})
        self.pass_time(5)
        self.assertEqual({'c-web': '', 'c-db': 'me'}, self.bulletin.owners())
        self.assertEqual(('c-db',), source.take())
        self.claimed('me', 'c-web', 'c-db')

    def test_a_sweep_does_not_name_unwanted_clusters(self):
        source = self.source()
        self.create('web')
        self.create('db')
        self.pass_time(SWEEP_S)
        self.assertEqual(('c-db',), source.take({'c-web'}))


class Sweeps(BoardCase):
    def test_an_incomplete_sweep_continues_with_the_next_poll(self):
        source = self.source()
        asked = [f'c-{number}' for number in range(250)]
        for cluster_id in asked:
            self.create(cluster_id.removeprefix('c-'))
        self.pass_time(SWEEP_S)
        named = []
        while found := source.take():
            for cluster_id in found:
                self.claim(cluster_id)
            named += found
        self.assertEqual(asked, named)

    def test_a_post_that_got_lost_is_found_by_the_next_sweep(self):
        source = self.source()
        self.create()
        self.assertEqual((), source.take())
        self.pass_time(SWEEP_S)
        self.assertEqual(('c-web',), source.take())
        self.assertEqual((), source.take())

    def test_a_sweep_names_claimed_clusters_once(self):
        source = self.source()
        self.create()
        source.offer('c-web')
        self.claimed('me', 'c-web')
        self.pass_time(SWEEP_S)
        self.assertEqual(('c-web',), source.take())

    def test_while_the_board_is_unavailable_each_poll_reads_the_store(self):
        self.bulletin.away = True
        with self.assertLogs('kiln.engine.work_sources.jobboard', 'INFO') as logs:
            source = self.source()
            self.create()
            for _ in range(20):
                self.assertEqual(('c-web',), source.take())
                self.pass_time(5)
            self.bulletin.away = False
            self.until(lambda: self.bulletin.open)
            self.until(lambda: len(logs.output) > 1)
        self.assertEqual(2, len(logs.output), logs.output)
        self.assertIn('memory: it is away. Until it is back', logs.output[0])
        self.assertIn('The jobboard is back', logs.output[1])
        self.until(lambda: source.take() == () or self.pass_time(1))

    def test_offers_made_while_the_board_is_unavailable_are_posted_later(self):
        source = self.source(started=False)
        self.bulletin.away = True
        with self.assertLogs('kiln.engine.work_sources.jobboard', 'WARNING'):
            source.offer('c-web')
            self.until(lambda: self.clock.waiting)
        self.bulletin.away = False
        self.until(self.bulletin.names)
        self.assertEqual(['c-web'], self.bulletin.names())

    def test_after_an_outage_everything_is_claimed_again(self):
        source = self.source()
        self.bulletin.post('c-web')
        self.claimed('me', 'c-web')
        self.bulletin.defects.append(ValueError('a defect'))
        with self.assertLogs('kiln.engine.work_sources.jobboard', 'ERROR'):
            self.until(lambda: not self.bulletin.defects and not source.take())
        # Until its old claim has expired it is free for none.
        self.until(source.take)
        self.assertEqual(2, self.bulletin.connected)

    def test_a_job_is_posted_again_if_the_store_cannot_be_read(self):
        source = self.source()
        self.bulletin.post('c-web')
        self.claimed('me', 'c-web')
        first = self.bulletin.notes[0]
        self.store.close()
        path = self.folder / 'kiln.db'
        path.rename(self.folder / 'elsewhere')
        path.mkdir()
        source.done('c-web')
        self.until(lambda: self.bulletin.names() == ['c-web'] and first not in self.bulletin.notes)
        self.pass_time(SWEEP_S)
        with self.assertRaises(StoreError):
            source.take()
