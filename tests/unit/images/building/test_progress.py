"""Build progress from recorded output."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.images.building.progress import Course, Progress, Stage

RECORDED = """\
I: automatically chosen mode: root
I: running --setup-hook in shell: sh -c 'x' exec /s/mmdebstrap.abc
I: running apt-get update...
Get:1 http://d/debian bookworm InRelease [151 kB]
Get:4 http://d/debian bookworm/main amd64 Packages [8790 kB]
Reading package lists...
I: downloading packages with apt...
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://d/debian bookworm/main amd64 gcc-12-base amd64 12.2.0-14+deb12u1 [37.6 kB]
Get:2 http://d/debian bookworm/main amd64 libc6 amd64 2.36-9+deb12u13 [2756 kB]
I: extracting archives...
I: installing essential packages...
I: installing remaining packages inside the chroot...
0 upgraded, 1 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://d/debian bookworm/main amd64 docker.io amd64 20.10.24+dfsg1-1+deb12u1+b2 [36 MB]
Selecting previously unselected package docker.io.
Unpacking docker.io (20.10.24+dfsg1-1+deb12u1+b2) ...
Setting up libc6:amd64 (2.36-9+deb12u13) ...
Setting up docker.io (20.10.24+dfsg1-1+deb12u1+b2) ...
I: running --customize-hook in shell: sh -c 'x' exec /s/mmdebstrap.abc
I: cleaning package lists and apt cache...
I: creating tarball...
I: done
I: success in 9.9 seconds
"""
LINES = st.one_of(st.sampled_from(RECORDED.splitlines()), st.text(max_size=40))


class CourseOfABuild(unittest.TestCase):
    def told(self, *lines):
        course = Course()
        return [progress for line in lines if (progress := course.read(line))]

    def test_a_recorded_build_goes_through_its_stages(self):
        told = self.told(*RECORDED.splitlines())
        stages = list(dict.fromkeys(one.stage for one in told))
        self.assertEqual(
            [Stage.DOWNLOADING, Stage.UNPACKING, Stage.INSTALLING, Stage.FINISHING, Stage.PACKING],
            stages,
        )
        self.assertIn(Progress(Stage.DOWNLOADING, 2, 2, 'libc6'), told)
        self.assertIn(Progress(Stage.INSTALLING, 0, 2, 'fetching docker.io'), told)
        # A package downloaded before is set up as well.
        self.assertIn(Progress(Stage.INSTALLING, 3, 3, 'docker.io'), told)

    def test_without_an_announced_number_the_total_is_unknown(self):
        told = self.told('I: installing essential packages...', 'Setting up a (1) ...')
        self.assertEqual(Progress(Stage.INSTALLING, 1, 0, 'a'), told[-1])

    @given(st.lists(LINES, max_size=40))
    def test_done_never_exceeds_the_total(self, lines):
        told = self.told(*lines)
        for before, after in itertools.pairwise(told):
            self.assertNotEqual(before, after)
        for one in told:
            self.assertTrue(one.total == 0 or 0 <= one.done <= one.total)
