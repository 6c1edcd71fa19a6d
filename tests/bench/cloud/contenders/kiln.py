"""kiln: the facade on its Nova driver, with the defaults of its options."""

import time

from oslo_config import cfg

import kiln.conf
from kiln.compute.backends import stack_settings
from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.conf import compute as compute_conf
from tests.bench.cloud.contenders.seat import sit

GROUP = 'compute:nova'
PORTS_S = 120.0


def open_compute(given, listeners=()):
    """Return a backend that asks through the proxies."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    kiln.conf.register(conf, GROUP, compute_conf.BACKEND_OPTS)
    kiln.conf.register(conf, GROUP, NovaDriver.options)
    urls = {f'{name}_endpoint_override': url for name, url in given['urls'].items()}
    for name, value in {**given['auth'], **urls, **given['options']}.items():
        conf.set_override(name, value, GROUP)
    driver = NovaDriver.open(conf[GROUP], name='nova', owner=given['owner'])
    return Compute(driver, settings=stack_settings(conf[GROUP]), listeners=listeners)


class Kiln:
    def __init__(self, given):
        self._given = given
        self._compute = open_compute(given)
        self._compute.check().result()

    def build(self, names):
        seen = {}
        operations = [self._build(name) for name in names]
        for operation in operations:
            operation.add_done_callback(lambda done: seen.setdefault(done.subject, time.time()))
        ids = [operation.result() for operation in operations]
        return {found: seen[name] for found, name in zip(ids, names, strict=True)}

    def _build(self, name):
        given = self._given
        return self._compute.build(
            'vm',
            given['flavor'],
            given['image'],
            network_ids=[given['network']],
            name=name,
            until=Until.ACTIVE,
        )

    def delete(self, ids):
        for operation in [self._compute.delete(amphora_id) for amphora_id in ids]:
            operation.result()

    def close(self):
        # The ports made as locks go when their servers have gone.
        end = time.monotonic() + PORTS_S
        while self._compute.list_resources().result() and time.monotonic() < end:
            time.sleep(1)
        self._compute.close(5)


if __name__ == '__main__':
    sit(Kiln)
