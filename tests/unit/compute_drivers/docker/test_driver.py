"""Requests of the driver's calls, and what it makes of their answers."""

import datetime
import json
import urllib.parse

from kiln.compute_drivers.docker import names
from kiln.compute_drivers.docker.api.events import Event
from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import (
    InstanceNotFoundError,
    InstanceStateConflict,
    NotSuspendedError,
    ServiceUnavailable,
)
from kiln.models import State
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_repeats import I, inspected
from tests.unit.compute_drivers.docker.test_settings import options

GONE, B, C = ('9' * 64, 'b' * 64, 'c' * 64)
BROKEN = answer(b'{"message": "the disk is made of cheese"}', status=500)
NONE = answer(b'{"message": "No such container: c1"}', status=404)
DONE = answer(b'', status=204)
NETWORK = {'NetworkID': 'n-1', 'EndpointID': 'e-1', 'IPAddress': '10.0.0.2'}


def said(value):
    return answer(json.dumps(value).encode())


def container(status='running', amphora_id=I, **networks):
    found = inspected(status=status)
    return said({**found, 'Id': amphora_id, 'NetworkSettings': {'Networks': networks}})


class Case(ScriptedCase):
    def open(self, *answers):
        url = self.serve(VERSION, *answers)
        driver = DockerDriver.open(options(url=url), name='here', owner='site')
        self.addCleanup(driver.close)
        return driver


class Names(Case):
    def test_a_driver_has_the_name_of_its_backend(self):
        driver = self.open()
        self.assertEqual(('here', ('here',)), (driver.name, tuple(driver.list_zones())))


class Foreign(Case):
    def test_a_container_of_others_is_inspected_and_no_more(self):
        others = said(inspected(names.OWNER))
        for call in (
            lambda driver: driver.get_amphora(amphora_id=I),
            lambda driver: driver.suspend(I),
            lambda driver: driver.resume(I),
            lambda driver: driver.reboot(I),
            lambda driver: driver.console_log(I),
            lambda driver: driver.attach_network(I, 'net'),
            lambda driver: driver.detach_network(I, 'net'),
        ):
            driver = self.open(others, DONE)
            with self.assertRaises(InstanceNotFoundError):
                call(driver)
            self.assertEqual(2, len(self.server.requests))


class Suspended(Case):
    def test_a_suspend_that_the_engine_does_not_answer_has_failed(self):
        driver = self.open(container(), BROKEN, container('paused'))
        with self.assertRaises(ServiceUnavailable):
            driver.suspend(I)

    def test_each_call_reads_the_state_again(self):
        driver = self.open(container('running'), container('paused'), DONE)
        with self.assertRaises(NotSuspendedError):
            driver.resume(I)
        driver.resume(I)
        self.assertIn('/unpause', self.server.requests[-1])


class Console(Case):
    def test_as_many_lines_are_asked_for_as_are_wanted(self):
        for lines, tail in ((None, 'tail=all'), (5, 'tail=5')):
            log, terminal = answer(b'up\n'), said({'Config': {'Tty': True}})
            driver = self.open(container(), log, terminal)
            self.assertEqual('up\n', driver.console_log(I, lines=lines))
            self.assertIn(tail, self.server.requests[2])


class Networks(Case):
    """Attached networks, which an engine can list with others of similar names."""

    def attach(self, has, named, times=1):
        each = [container(), said(named), answer(b''), container(**has)]
        driver = self.open(*each * times)
        return [driver.attach_network(I, 'net') for _ in range(times)][-1]

    def test_a_connection_that_was_made_by_the_id_of_a_network_is_found_by_its_name(self):
        similar = [{'Name': 'net-2', 'Id': 'n-2'}, {'Name': 'net', 'Id': 'n-1'}]
        for named in similar, similar[::-1]:
            self.assertEqual('e-1', self.attach({'n-1': NETWORK}, named).port_id)

    def test_a_network_that_is_detached_while_it_is_attached_is_a_conflict(self):
        with self.assertRaisesRegex(InstanceStateConflict, 'detached again meanwhile'):
            self.attach({}, [])

    def test_each_attach_asks_the_engine(self):
        self.attach({'net': NETWORK}, [], times=2)
        self.assertEqual(9, len(self.server.requests))

    def test_a_detach_that_the_engine_refuses_has_failed(self):
        driver = self.open(container(), said([]), BROKEN)
        with self.assertRaises(ServiceUnavailable):
            driver.detach_network(I, 'net')


class Listed(Case):
    def entry(self, **labels):
        labels = {names.OWNER: 'site', **{f'kiln.{key}': text for key, text in labels.items()}}
        return {'Id': I, 'State': 'running', 'Status': 'Up 2 minutes', 'Labels': labels}

    def test_stopped_containers_of_the_site_are_asked_for_too(self):
        list(self.open(said([])).list_amphorae())
        self.assertIn('all=1', self.server.requests[1])

    def test_only_containers_of_the_wanted_name_are_asked_for(self):
        driver = self.open(said([self.entry(name='web')]))
        self.assertEqual('web', driver.get_amphora(amphora_name='web').name)
        asked = urllib.parse.unquote_plus(self.server.requests[1])
        self.assertIn('{"label": ["kiln.owner=site", "kiln.name=web"]}', asked)

    def test_only_containers_with_the_very_labels_are_listed(self):
        # Podman reads patterns.
        entries = [self.entry(), {**self.entry(owner='sitting'), 'Id': B}]
        self.assertEqual([I], [one.id for one in self.open(said(entries)).list_amphorae()])

    def test_a_container_is_inspected_only_if_the_list_says_too_little(self):
        for labels, asked in (({}, 2), ({'health': 'yes'}, 3)):
            driver = self.open(said([self.entry(**labels)]), *[container()] * (asked - 2))
            self.assertEqual([I], [one.id for one in driver.list_amphorae()])
            self.assertEqual(asked, len(self.server.requests))

    def test_a_list_leaves_out_only_what_is_certainly_gone(self):
        ended = [{**self.entry(), 'State': 'exited'}]
        self.assertEqual([], list(self.open(said(ended), NONE).list_amphorae()))
        with self.assertRaises(ServiceUnavailable):
            list(self.open(said(ended), BROKEN).list_amphorae())


class Changed(Case):
    def test_a_changed_container_is_read_or_else_it_is_gone(self):
        seen = Event(at_ns=10**9, action='start', container_id=I)
        happened = [
            (10**9, 'start', I), (2 * 10**9, 'destroy', GONE), (3 * 10**9, 'die', B),
            (4 * 10**9, 'die', C),
        ]  # fmt: skip
        lines = (
            json.dumps({'timeNano': at, 'Action': action, 'Actor': {'ID': one}})
            for at, action, one in happened
        )
        now = datetime.datetime.now(datetime.UTC).isoformat()
        driver = self.open(
            said({'SystemTime': now}), chunks(lines), container(), container(amphora_id=B), NONE
        )
        told = driver.changes(seen.cursor)
        self.assertEqual([I, B], [one.amphora_id for one in told.statuses])
        self.assertEqual({one.state for one in told.statuses}, {State.ACTIVE})
        self.assertEqual((False, (GONE, C)), (told.complete, told.gone))
        self.assertEqual(f'{4 * 10**9}.die.{C}', told.cursor)


def chunks(lines):
    """Return an answer in chunks, of which clients expect more than one event."""
    parts = [f'{len(line):x}\r\n{line}\r\n' for line in (*lines, '')]
    whole = answer(''.join(parts).encode())
    head, empty, rest = whole.partition(b'\r\n\r\n')
    kept = [line for line in head.split(b'\r\n') if not line.startswith(b'Content-Length')]
    return b'\r\n'.join([*kept, b'Transfer-Encoding: chunked']) + empty + rest
