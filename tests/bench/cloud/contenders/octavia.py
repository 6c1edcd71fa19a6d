"""Octavia's own driver, and its wait: run by the Python that has Octavia.

A worker has one pool of threads for the tasks of all its flows. A build is one
task; a wait is another, which asks once, and sleeps in its thread where that was too
early. The flow then queues it again.
"""

import concurrent.futures
import pathlib
import tempfile
import time

from oslo_config import cfg

from tests.bench.cloud.contenders.seat import sit

CONF = cfg.CONF
# [task_flow] max_workers, and its default.
THREADS = 5


def configure(given):
    """Read a configuration as small as it can be."""
    auth = given['auth'] | {'auth_type': 'password'}
    sections = {
        'service_auth': auth,
        'nova': {'endpoint': given['urls']['compute']},
        'glance': {'endpoint': given['urls']['image']},
        'neutron': auth | {'endpoint_override': given['urls']['network']},
        'controller_worker': {
            'amp_active_wait_sec': given['options']['wait_s'],
            'amp_boot_network_list': given['network'],
            'volume_driver': 'volume_noop_driver',
            'image_driver': 'image_glance_driver',
        },
    }
    lines = []
    for name, options in sections.items():
        lines += [f'[{name}]', *(f'{option} = {value}' for option, value in options.items())]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'octavia.conf')
        path.write_text('\n'.join(lines))
        CONF([], project='octavia', default_config_files=[str(path)])


class Octavia:
    def __init__(self, given):
        from octavia.common import config  # noqa: F401  # registers the options

        configure(given)
        # Its decorators read the configuration when they are imported.
        from octavia.compute.drivers.nova_driver import VirtualMachineManager

        self._given = given
        self._driver = VirtualMachineManager()
        self._driver.validate_flavor(given['flavor'])
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS)
        self._ends = []

    def build(self, names):
        self._ends = [concurrent.futures.Future() for _ in names]
        for name, end in zip(names, self._ends, strict=True):
            self._pool.submit(self._task, self._create, name, end)
        return dict(end.result() for end in self._ends)

    def _task(self, work, subject, end):
        try:
            work(subject, end)
        except Exception as exc:
            end.set_exception(exc)

    def _create(self, name, end):
        given = self._given
        compute_id = self._driver.build(
            name=name,
            amphora_flavor=given['flavor'],
            image_tag='amphora',
            network_ids=[given['network']],
        )
        self._pool.submit(self._task, self._wait, compute_id, end)

    def _wait(self, compute_id, end):
        amphora, fault = self._driver.get_amphora(compute_id, self._given['network'])
        if amphora.status == 'ACTIVE':
            end.set_result((compute_id, time.time()))
            return
        if amphora.status == 'ERROR':
            raise RuntimeError(fault)
        time.sleep(CONF.controller_worker.amp_active_wait_sec)
        self._pool.submit(self._task, self._wait, compute_id, end)

    def delete(self, ids):
        list(self._pool.map(self._driver.delete, ids))

    def close(self):
        self._pool.shutdown()


if __name__ == '__main__':
    sit(Octavia)
