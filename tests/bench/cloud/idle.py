"""What it costs to watch servers to which nothing happens.

Most of them are copies of one row of Nova's database: to a list they are servers like
any other, and they take no host.
"""

import dataclasses
import threading
import uuid

from kiln.compute.goals import Until
from kiln.models import State
from kiln.telemetry.events import Listener
from kiln.testing.proxy import Fault
from tests.bench.cloud.contenders.kiln import open_compute
from tools.devcloud.backends import Database

#: How many servers there are, and how many of them are watched.
SIZES = ((4, 4), (40, 40), (1000, 4), (1000, 1000))
#: Looks until all is quiet, and looks that are measured then.
FIRST, MEASURED = 5, 5
LOOKS_S = 300.0
#: The tables that make a server what it is, and their column with its id.
TABLES = (
    ('nova.instances', 'uuid'),
    ('nova.instance_extra', 'instance_uuid'),
    ('nova.instance_info_caches', 'instance_uuid'),
    ('nova.instance_system_metadata', 'instance_uuid'),
    ('nova.instance_metadata', 'instance_uuid'),
    ('nova.tags', 'resource_id'),
    ('nova_api.instance_mappings', 'instance_uuid'),
    ('nova_api.request_specs', 'instance_uuid'),
)


class Copies:
    """Copies a server in the database."""

    def __init__(self, field):
        self._database = Database(field.place)

    def make(self, server_id, count):
        """Return the ids of so many copies of a server."""
        made = [str(uuid.uuid4()) for _ in range(count)]
        pairs = ', '.join(f"('{new}')" for new in made)
        copies = [self._copy(table, column, server_id) for table, column in TABLES]
        self._database.query(
            'create temporary table nova.copies (id varchar(36)) charset utf8mb3;'
            f'insert into nova.copies values {pairs};' + ''.join(copies)
        )
        return made

    def _copy(self, table, key, server_id):
        schema, _, name = table.partition('.')
        columns = [
            row[0]
            for row in self._database.query(
                'select column_name from information_schema.columns where table_schema = '
                f"'{schema}' and table_name = '{name}' and column_name != 'id' "
                "and extra not like '%GENERATED%'"
            )
        ]
        values = ['copies.id' if column == key else f'old.`{column}`' for column in columns]
        names = ', '.join(f'`{column}`' for column in columns)
        return (
            f'insert into {table} ({names}) select {", ".join(values)} '
            f"from {table} old join nova.copies where old.{key} = '{server_id}';"
        )


class Weigh(Fault):
    """No fault: notes the size of each answer."""

    def __init__(self):
        self.seen = []

    async def play(self, visit):
        answer = await visit.forward()
        changes = 'changes-since' in visit.request.target
        self.seen.append((changes, len(answer.raw) - answer.body_at))
        visit.send(answer.raw, answer.status)


class Looks(Listener):
    """Notes how many requests there had been at each look of the watcher."""

    def __init__(self, weigh):
        self._weigh = weigh
        self._marks = []
        self._enough = threading.Event()

    def ticked(self, backend, watched, lag_s):
        self._marks.append(len(self._weigh.seen))
        if len(self._marks) > FIRST + MEASURED:
            self._enough.set()

    def measured(self):
        """Return what each request of the last looks was, and how large its answer."""
        if not self._enough.wait(LOOKS_S):
            raise SystemExit(f'there were {len(self._marks)} looks in {LOOKS_S:.0f} s')
        return self._weigh.seen[self._marks[FIRST] : self._marks[FIRST + MEASURED]]


@dataclasses.dataclass(frozen=True)
class Idle:
    """What a look at so many cost."""

    servers: int
    watched: int
    requests: float
    #: Those among them that asked what had changed.
    changes: float
    answered: float

    def __str__(self):
        return (
            f'{self.servers:8}{self.watched:8}{self.requests:16.2f}{self.changes:16.2f}'
            f'{self.answered:16.0f}'
        )


def watch(field, given, ids, servers):
    """Return what it costs to watch servers, after the first looks at them."""
    weigh = Weigh()
    looks = Looks(weigh)
    rule = field.proxies['compute'].fault(weigh, 'GET')
    compute = open_compute(given, listeners=[looks])
    try:
        if (there := len(compute.list_amphorae().result())) != servers:
            raise SystemExit(f'Nova lists {there} servers, not {servers}')
        for one in ids:
            compute.watch(one, {State.DELETED}, timeout=2 * LOOKS_S)
        seen = looks.measured()
    finally:
        compute.close(5)
        rule.remove()
    return Idle(
        servers=servers,
        watched=len(ids),
        requests=len(seen) / MEASURED,
        changes=sum(changes for changes, _ in seen) / MEASURED,
        answered=sum(size for _, size in seen) / MEASURED,
    )


def idle(field):
    """Print what looks cost; return whether none costs more than one small request."""
    given = field.given({})
    compute = open_compute(given)
    ids = [
        compute.build(
            'vm',
            given['flavor'],
            given['image'],
            network_ids=[given['network']],
            until=Until.ACTIVE,
        ).result()
    ]
    compute.close(5)
    copies, found = Copies(field), []
    print('\n servers watched    requests/look     for changes      bytes/look')
    for servers, watched in SIZES:
        if servers > len(ids):
            ids += copies.make(ids[0], servers - len(ids))
        found.append(watch(field, given, ids[:watched], servers))
        print(found[-1], flush=True)
    return all((one.requests, one.changes) == (1, 1) for one in found) and (
        len({one.answered for one in found}) == 1
    )
