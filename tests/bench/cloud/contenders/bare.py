"""The bare loop: novaclient, and one list of what has changed, once per second, for all."""

import concurrent.futures
import datetime
import time

from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from novaclient import client

from tests.bench.cloud.contenders.seat import sit

THREADS = 8
INTERVAL_S = 1.0
OVERLAP_S = 2


class Bare:
    """As somebody writes it who knows Nova and has an afternoon."""

    def __init__(self, given):
        self._given = given
        session = Session(auth=v3.Password(**given['auth']))
        self._nova = client.Client(
            '2.96', session=session, endpoint_override=given['urls']['compute']
        )
        self._nova.servers.list(limit=1)
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS)

    def build(self, names):
        names = set(names)
        began = time.time()
        posts = [self._pool.submit(self._post, name) for name in names]
        concurrent.futures.wait(posts, return_when=concurrent.futures.FIRST_COMPLETED)
        seen = {}
        while len(seen) < len(names):
            due = time.monotonic() + INTERVAL_S
            since, began = began - OVERLAP_S, time.time()
            for server in self._changed(since):
                if server.status == 'ERROR':
                    raise SystemExit(f'{server.id} is in error: {server.fault}')
                if server.status == 'ACTIVE' and server.name in names:
                    seen.setdefault(server.id, time.time())
            if len(seen) < len(names):
                time.sleep(max(0.0, due - time.monotonic()))
        return seen

    def _post(self, name):
        given = self._given
        return self._nova.servers.create(
            name, given['image'], given['flavor'], nics=[{'net-id': given['network']}]
        )

    def _changed(self, since):
        moment = datetime.datetime.fromtimestamp(since, datetime.UTC)
        return self._nova.servers.list(search_opts={'changes-since': f'{moment:%FT%TZ}'})

    def delete(self, ids):
        list(self._pool.map(self._nova.servers.delete, ids))

    def close(self):
        self._pool.shutdown()


if __name__ == '__main__':
    sit(Bare)
