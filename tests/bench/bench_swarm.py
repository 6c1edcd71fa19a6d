"""What kiln adds to making a Docker Swarm.

    python -m tests.bench.bench_swarm [--managers 3] [--workers 3] [--rounds 3]

Brings a Swarm from an image of its nodes to where all of them are ready: by `kiln up`,
and by a script of docker commands as one writes it by hand, in turns on one real engine.
The script boots all nodes at a time, in the same way and by the same cloud-init, joins
them and gives them labels; it knows no certificates and writes nothing down. Prints
seconds, best and median of each, and the ratio of the medians; fails where kiln takes
more than twice as long.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

import docker

from tests.functional.engines import engine, make_network
from tests.functional.swarm.service import BASE
from tests.functional.swarm.site import CONF, HEALTH, PAGE, kiln

BOUND = 2.0
LONGEST_S = 600

SCRIPT = r"""
set -eu
nodes=''
boot() {
    docker create --name "$1" --hostname "$1" --label "$OWNER" --privileged --tty \
        --tmpfs /run --tmpfs /run/lock -e container=docker --stop-signal SIGRTMIN+3 \
        -v /var/lib/docker "$IMAGE" >/dev/null
    docker cp "$SEED" "$1:/var/lib/" >/dev/null
    docker start "$1" >/dev/null
    until docker exec "$1" docker info >/dev/null 2>&1; do sleep 0.2; done
}
for number in $(seq "$MANAGERS"); do nodes="$nodes $OWNER-m$number"; done
for number in $(seq "$WORKERS"); do nodes="$nodes $OWNER-w$number"; done
waited=''
for node in $nodes; do boot "$node" & waited="$waited $!"; done
for one in $waited; do wait "$one"; done
first=$OWNER-m1
address=$(docker inspect --format '{{.NetworkSettings.IPAddress}}' "$first")
docker exec "$first" docker swarm init --advertise-addr "$address" >/dev/null
manager=$(docker exec "$first" docker swarm join-token -q manager)
worker=$(docker exec "$first" docker swarm join-token -q worker)
for node in $nodes; do
    case $node in
        "$first") continue ;;
        *-m*) token=$manager ;;
        *) token=$worker ;;
    esac
    docker exec "$node" docker swarm join --token "$token" "$address:2377" >/dev/null
done
for node in $nodes; do
    docker exec "$first" docker node update --label-add "name=$node" "$node" >/dev/null
done
ready() { docker exec "$first" docker node ls --format '{{.Status}}' | grep -c Ready; }
reached() {
    docker exec "$first" docker node ls --format '{{.ManagerStatus}}' | grep -cE 'Reach|Leader'
}
until [ "$(ready)" = $((MANAGERS + WORKERS)) ] && [ "$(reached)" = "$MANAGERS" ]; do
    sleep 0.2
done
"""
USER_DATA = """#cloud-config
runcmd:
  - [systemctl, enable, --now, docker.service]
"""


class Bench:
    """An engine that knows the image of the nodes."""

    def __init__(self, folder, managers, workers):
        self._folder, self._managers, self._workers = folder, managers, workers
        self._url = engine().url
        self._bare = docker.APIClient(base_url=self._url, version='auto')
        seed = folder / 'cloud' / 'seed' / 'nocloud'
        seed.mkdir(parents=True)
        (seed / 'user-data').write_text(USER_DATA)
        (seed / 'meta-data').write_text('instance-id: by-hand\n')
        conf = self._conf('image')
        kiln(conf, 'image', 'build', 'swarm-node', '--max-age', '30d', '--into', 'containers')

    def _conf(self, owner):
        home = self._folder / owner
        home.mkdir()
        conf = home / 'kiln.conf'
        conf.write_text(CONF.format(owner=owner, url=self._url, folder=home))
        return conf

    def with_kiln(self):
        """Return the seconds that a command of kiln takes, from its start to its end."""
        owner = f'b{uuid.uuid4().hex[:8]}'
        conf = self._conf(owner)
        network = make_network(self._bare, owner)
        page = conf.with_name('swarm.yaml')
        page.write_text(PAGE.format(
            managers=self._managers, workers=self._workers, image=BASE, parameters='{}',
            health=HEALTH, kind='container',
        ))  # fmt: skip
        try:
            started = time.monotonic()
            kiln(conf, 'up', str(page), '--yes')
            return time.monotonic() - started
        finally:
            kiln(conf, 'cluster', 'delete', 'web', '--yes', check=False)
            self._bare.remove_network(network)

    def by_hand(self):
        """Return the seconds that the script takes."""
        owner = f'hand{uuid.uuid4().hex[:8]}'
        given = {
            'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'DOCKER_HOST': self._url, 'OWNER': owner,
            'IMAGE': BASE, 'SEED': str(self._folder / 'cloud'), 'MANAGERS': str(self._managers),
            'WORKERS': str(self._workers),
        }  # fmt: skip
        try:
            started = time.monotonic()
            # A group of its own, so that none of its parts goes on for ever when it is ended.
            script = subprocess.Popen(['/bin/sh', '-c', SCRIPT], env=given, start_new_session=True)
            try:
                status = script.wait(LONGEST_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(script.pid, signal.SIGKILL)
                script.wait()
            if status:
                raise RuntimeError(f'the script of docker commands failed ({status})')
            return time.monotonic() - started
        finally:
            self._remove(given)

    def _remove(self, given):
        listed = ['docker', 'ps', '-aq', '--filter', f'label={given["OWNER"]}']
        found = subprocess.run(listed, env=given, check=True, capture_output=True, text=True)
        if ids := found.stdout.split():
            removed = ['docker', 'rm', '-fv', *ids]
            subprocess.run(removed, env=given, check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--managers', type=int, default=3)
    parser.add_argument('--workers', type=int, default=3)
    parser.add_argument('--rounds', type=int, default=3)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Bench(folder, options.managers, options.workers)
        ways = {'kiln': bench.with_kiln, 'by hand': bench.by_hand}
        times = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                times[name].append(way())
    for name, found in times.items():
        middle = statistics.median(found)
        print(f'{name:8} {options.managers} managers, {options.workers} workers: '
              f'best {min(found):6.2f} s, median {middle:6.2f} s')  # fmt: skip
    best, middle = (of(times['kiln']) / of(times['by hand']) for of in (min, statistics.median))
    print(f'ratio    best {best:.2f}, median {middle:.2f} (bound {BOUND})')
    return int(middle > BOUND)


if __name__ == '__main__':
    sys.exit(main())
