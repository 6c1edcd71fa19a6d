"""Kills of a builder that replaces an image repeatedly."""

import hashlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from tests.functional.images.builds import ROOT
from tests.unit.images.host import Host, recipe

KILLS = int(os.environ.get('KILN_IMAGE_KILLS', '15'))
SEED = int(os.environ.get('KILN_IMAGE_KILL_SEED', '3'))
#: Different each time, and large enough that writing takes a moment.
CONTENT = """
for one in "$@"; do case "$one" in */image.tar) tar=$one ;; esac; done
{ echo $$; cat "$here/content"; } > "$tar"; echo 'a 1' > "$KILN_STAGE/packages"
"""


class Kills(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.host = Host(self.folder)
        self.host.set('content', 'x' * 4_000_000)
        self.host.program('mmdebstrap', CONTENT)

    def killed_after(self, delay_s):
        process = subprocess.Popen(
            [sys.executable, '-m', 'tests.functional.images.victim', str(self.folder)],
            cwd=ROOT,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join([str(ROOT), *sys.path])},
            stdout=subprocess.PIPE,
        )
        with process:
            process.stdout.readline()
            try:
                process.wait(delay_s)
            except subprocess.TimeoutExpired:
                pass
            process.kill()

    def test_a_kill_at_any_time_leaves_a_complete_image_or_none(self):
        chance = random.Random(SEED)
        there = 0
        for round_ in range(KILLS):
            delay_s = chance.uniform(0, 0.15)
            with self.subTest(round=round_, delay_s=delay_s):
                self.killed_after(delay_s)
                for image in self.host.cache.images():
                    there += 1
                    found = hashlib.sha256(image.path.read_bytes()).hexdigest()
                    self.assertEqual(
                        (image.digest, image.size), (found, image.path.stat().st_size)
                    )
        self.assertGreater(there, KILLS // 2)
        image = self.host.builder.build(recipe())
        self.assertEqual([image], self.host.cache.images())
        self.host.builder.prune()
        self.assertEqual([], self.host.cache.leftovers('node'))
