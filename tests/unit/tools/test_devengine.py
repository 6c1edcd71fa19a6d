"""The development engine: its places, its networks, and its wrapper around runc."""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from tools.devengine import engines, reaper, runtime
from tools.devengine.errors import EngineError
from tools.devengine.place import LONGEST_HOME, NUMBERS, Networks, Place, default_home


class Places(unittest.TestCase):
    def test_an_engine_lives_where_it_is_told_to(self):
        self.assertEqual(pathlib.Path('/x'), default_home({'KILN_ENGINE_HOME': '/x'}))
        self.assertEqual(pathlib.Path('/s/kiln-devengine'), default_home({'XDG_STATE_HOME': '/s'}))

    def test_engines_side_by_side_share_no_name(self):
        places = [Place(pathlib.Path(home), kind) for home in ['/a', '/b'] for kind in 'xy']
        for names in ([one.bridge for one in places], [one.socket for one in places]):
            self.assertEqual(4, len(set(names)))
        self.assertTrue(all(len(one.bridge) <= 15 for one in places))

    def test_a_home_whose_sockets_would_have_no_room_is_refused(self):
        with self.assertRaises(EngineError):
            Place(pathlib.Path('/' + 'x' * LONGEST_HOME), 'docker')

    def test_the_networks_of_two_engines_do_not_meet(self):
        pools = {Networks(number).pool for number in range(NUMBERS)}
        self.assertEqual(NUMBERS, len(pools))
        self.assertEqual('172.31.107.1', Networks(7).gateway)


class Starts(unittest.TestCase):
    place = Place(pathlib.Path('/h'), 'docker')

    def test_the_wrapper_is_used_where_there_is_one(self):
        for describe in (engines.docker, engines.podman):
            for wrapper in (None, pathlib.Path('/w')):
                start = describe(self.place, Networks(1), wrapper)
                said = ' '.join([*start.command, *start.files.values()])
                self.assertEqual(wrapper is not None, 'kiln-runc' in said)

    def test_podman_s_first_network_is_its_own(self):
        start = engines.podman(self.place, Networks(1), None)
        (text,) = [text for path, text in start.files.items() if path.suffix == '.json']
        self.assertEqual(self.place.bridge, json.loads(text)['network_interface'])


class Wrapper(unittest.TestCase):
    def test_it_is_needed_where_the_right_is_missing(self):
        self.assertTrue(runtime.needed('Name:\tx\nCapBnd:\t000001fffeffffff\n'))
        self.assertFalse(runtime.needed('CapBnd:\t000001ffffffffff\n'))

    def test_it_takes_out_what_cannot_be_given_and_nothing_else(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        config = {
            'process': {
                'capabilities': {'bounding': ['CAP_CHOWN', 'CAP_SYS_RESOURCE']},
                'rlimits': [{'type': 'RLIMIT_NOFILE', 'hard': 9, 'soft': 9}],
                'oomScoreAdj': -500,
                'args': ['sleep', '1'],
            }
        }
        spec, wrapper = folder / 'config.json', folder / 'wrapper'
        # It ends in runc, which this machine need not have; echo shows what that is given.
        runtime.write(wrapper, 'echo')
        for words in (
            ['create', '--bundle', str(folder)],
            [f'--bundle={folder}'],
            ['exec', '--process', str(spec)],
            ['exec', '-p', str(spec)],
        ):
            spec.write_text(json.dumps(config, separators=(',', ':')))
            passed_on = subprocess.check_output([str(wrapper), *words], text=True, cwd='/')
            self.assertEqual(words, passed_on.split())
            process = json.loads(spec.read_text())['process']
            self.assertEqual(
                {
                    'capabilities': {'bounding': ['CAP_CHOWN']},
                    'rlimits': [],
                    'oomScoreAdj': 0,
                    'args': ['sleep', '1'],
                },
                process,
            )


class Reaper(unittest.TestCase):
    def test_it_ends_when_the_last_process_has(self):
        script = 'sleep 0.4 & exit 0'
        started = time.monotonic()
        subprocess.run([sys.executable, reaper.__file__, 'sh', '-c', script], check=True)
        self.assertGreater(time.monotonic() - started, 0.35)

    def test_a_request_to_end_is_passed_on(self):
        script = 'trap "exit 0" TERM; echo up; while :; do sleep 0.05; done'
        with subprocess.Popen(
            [sys.executable, reaper.__file__, 'sh', '-c', script], stdout=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            process.terminate()
            self.assertEqual(0, process.wait(120))
