"""Tests that records of an earlier version are read correctly and written unchanged."""

import contextlib
import dataclasses
import pathlib
import re
import sqlite3

from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import Aim, OperationState, StepState
from kiln.clusters.spec import (
    ClusterTemplate,
    Fallback,
    MachineSpec,
    NodeGroupSpec,
    Portion,
    Shape,
    Strategy,
    ZoneRule,
    Zones,
)
from kiln.models import AmphoraType
from tests.unit.db import samples
from tests.unit.db.case import StoreCase

#: The rows of ``fill`` as written by the first version with all of these columns.
STORED = pathlib.Path(__file__).with_name('stored.sql')
#: What later versions write in addition: the text before a field, and with it.
ADDED = {r'("batch":[^}]*)}': r'\1,"drain_timeout_s":null}'}

TEMPLATE = ClusterTemplate(
    name='small',
    coe='swarm',
    driver='nodes_v1==1.2.*',
    machine=MachineSpec(
        image='debian',
        flavor='m1',
        networks=('net',),
        sec_groups=(),
        parameters={'a': {'b': '\u00fc'}},
    ),
    groups=(
        NodeGroupSpec(
            name='edge',
            shape=Shape(count=2, zones=Zones(rule=ZoneRule.COUNTS, counts={'az1': 1, 'az2': 1})),
            machine=MachineSpec(server_type=AmphoraType.CONTAINER),
            strategy=Strategy(batch=4, max_unavailable=Portion(1)),
            fallback=Fallback(flavors=('m2',), zones=('az3',)),
            deletion=(),
        ),
    ),
)
FORMER = Aim(
    spec=samples.spec(create_timeout_s=float('inf')), pin=samples.PIN, decision={'x': [1]}
)
WEB = samples.cluster(
    spec=samples.spec(template='small', coe='swarm', driver='nodes_v1'),
    decision={'steps': ['asked', {'b': 1.5}]},
    former=FORMER,
    driver_handle='stack-1',
    driver_state={'a': {'c': [1, None, True]}},
    outputs={'pages': ['http://192.0.2.1/'], 'none': None},
    trouble=samples.CAUSE,
    created_at=1.5,
    updated_at=2.5,
)
OPERATION = samples.operation(
    'op-web',
    state=OperationState.WAITING,
    args={'force': True, 'of': ['n-1']},
    deadline_at=9.5,
    created_at=1.5,
    started_at=2.0,
    cause=samples.CAUSE,
)
NODES = (samples.full_node(), samples.node('n-2', place=samples.Place(zone='az2')))
STEPS = (
    samples.step('s-1', 'op-web', deadline_at=8.5),
    samples.step(
        's-2',
        'op-web',
        state=StepState.DONE,
        ended_at=3.5,
        result={'id': 'server-1'},
        cause=samples.CAUSE,
    ),
)
HOLDINGS = (
    samples.holding(),
    samples.holding('port-2', node_id=None, node_name=None, gone_at=4.5),
)
EVENTS = (
    samples.event(at=1.0, operation_id='op-web', node_id='n-1', facts={'late': False}),
    samples.event('seen \ud83d\0', at=2.0),
)


def dump(path):
    """Return the content of a store as SQL, without counters and migrations."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return [
            line
            for line in db.iterdump()
            if line.startswith('INSERT')
            and '"alembic_version"' not in line
            and '"counter"' not in line
            and '"sqlite_sequence"' not in line
        ]


class Stored(StoreCase):
    def path(self):
        return self.folder / 'kiln.db'

    def fill(self):
        self.store.templates.save(TEMPLATE)
        created = samples.operation('op-web', args=OPERATION.args, deadline_at=9.5, created_at=1.5)
        self.store.clusters.create(WEB, created)
        self.write(
            self.claim(),
            cluster=WEB,
            operation=OPERATION,
            node=list(NODES),
            step=list(STEPS),
            holding=list(HOLDINGS),
            event=list(EVENTS),
        )

    def test_records_of_an_earlier_version_are_read_correctly(self):
        with contextlib.closing(sqlite3.connect(self.path())) as db:
            db.executescript(STORED.read_text(encoding='utf-8'))
        web = self.store.clusters.get('web')
        self.assertEqual((WEB, FORMER.decision), (web, web.former.decision))
        self.assertEqual((TEMPLATE,), self.store.templates.list())
        self.assertEqual((OPERATION,), self.store.operations.of('c-web'))
        self.assertEqual(NODES, self.store.nodes.of('c-web'))
        self.assertEqual(STEPS, self.store.journal.of('op-web'))
        self.assertEqual(HOLDINGS, self.store.receipts.holdings('c-web'))
        first, second = EVENTS
        readable = dataclasses.replace(second, seq=2, message='seen ?\ufffd')
        found = self.store.events.after()
        self.assertEqual((dataclasses.replace(first, seq=1), readable), found)

    def test_a_missing_or_truncated_spec_is_refused(self):
        self.fill()
        for text in ('', '{"name":"web"'):
            with contextlib.closing(sqlite3.connect(self.path())) as db, db:
                db.execute('UPDATE cluster SET spec = ?', [text])
            words = 'Cannot read row c-web in the store: expected ClusterSpec as JSON'
            with self.subTest(text), self.assertRaisesRegex(StoreError, words):
                self.store.clusters.get('web')

    def test_stored_records_are_unchanged_to_the_byte(self):
        self.fill()
        text = STORED.read_text(encoding='utf-8')
        for pattern, added in ADDED.items():
            text = re.sub(pattern, added, text)
        self.assertEqual(text.splitlines(), dump(self.path()))
