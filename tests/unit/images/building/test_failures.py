"""Build failures in recorded output of mmdebstrap 1.3.5 and apt 2.6."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.images.building.failures import failure
from kiln.images.exceptions import (
    ImageBuildFailed,
    ImageBuildForbidden,
    ImageError,
    MirrorUnavailable,
    MirrorUntrusted,
    NoRoomForImage,
    PackageNotFound,
)
from tests.unit.images.host import recipe

_WAY_OUT = """\
I: main() received signal PIPE: waiting for setup...
I: removing tempdir /c/node/.stage-1/mmdebstrap.bPaH7jMHx4...
E: mmdebstrap failed to run
"""
RECORDED = (
    (
        """\
I: downloading packages with apt...
Reading package lists...
Building dependency tree...
E: Unable to locate package dokcer
E: apt download failed: E: apt-get --yes install dokcer -oDpkg::Use-Pty=false failed
""",
        PackageNotFound,
        'the archives have no package dokcer',
    ),
    (
        """\
Package busybox-static is not available, but is referred to by another package.
E: Version '9' for 'busybox-static' was not found
E: apt download failed: E: apt-get --yes install busybox-static=9 failed
""",
        PackageNotFound,
        'package busybox-static, but not as 9',
    ),
    (
        "E: Release 'nosuite' for 'sl' was not found\n",
        PackageNotFound,
        'package sl, but not as nosuite',
    ),
    (
        """\
I: running --extract-hook in shell: sh -c 'sh "$KILN_STAGE/run-0" "$1"' exec /c/mmdebstrap.d6
begun
the disk is upside down
E: setup failed: E: command failed: sh "$KILN_STAGE/run-0" "$1"
""",
        ImageBuildFailed,
        'the disk is upside down',
    ),
    (
        'E: kiln: /var/run/x leads out of the image; use the directory that it points to\n'
        'E: setup failed: E: command failed: sh "$KILN_STAGE/lay-0" "$1"\n',
        ImageBuildFailed,
        '/var/run/x leads out of the image',
    ),
    (
        """\
W: apt-get indextargets output is empty
I: Pinned packages:
E: apt-get update did not find any indices for architecture 'amd64' in suite 'bookworm'
""",
        ImageBuildFailed,
        'did not find any indices',
    ),
    (
        """\
Err:3 http://127.0.0.1:9/debian bookworm InRelease
W: GPG error: http://m/debian bookworm InRelease: The following signatures couldn't be \
verified because the public key is not available: NO_PUBKEY 0E98404D386FA1D9
E: The repository 'http://m/debian bookworm InRelease' is not signed.
""",
        MirrorUntrusted,
        'NO_PUBKEY 0E98404D386FA1D9',
    ),
    (
        "E: The repository 'http://m/debian bookworm Release' is not signed.\n",
        MirrorUntrusted,
        'http://m/debian bookworm Release is not signed',
    ),
    (
        'E: Failed to fetch http://m/pool/a.deb  404  Not Found [IP: 203.0.113.80 80]\n'
        'E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n',
        MirrorUnavailable,
        'http://m/pool/a.deb: 404  Not Found',
    ),
    (
        'dpkg: error processing archive docker.io.deb (--unpack):\n'
        " cannot copy extracted data for './usr/bin/docker' to '/usr/bin/docker.dpkg-new': "
        'failed to write (No space left on device)\n'
        'E: Sub-process /usr/bin/dpkg returned an error code (1)\n',
        NoRoomForImage,
        'the disk is full',
    ),
    (
        'unshare: write failed /proc/self/uid_map: Operation not permitted\n',
        ImageBuildForbidden,
        'Operation not permitted',
    ),
    ('E: unshare() failed: Operation not permitted\n', ImageBuildForbidden, 'not permitted'),
    ('', ImageBuildFailed, 'mmdebstrap failed to run'),
)
LINES = [line for text, _, _ in RECORDED for line in text.splitlines()]


class Failures(unittest.TestCase):
    def test_each_failure_has_a_class_and_a_reason(self):
        for text, kind, words in RECORDED:
            lines = (text + _WAY_OUT).splitlines()
            with self.subTest(words):
                error = failure(recipe(), 1, lines, '/c/node.log')
                self.assertIs(kind, type(error))
                self.assertIn(words, str(error))
                self.assertIn('image node', str(error))
                self.assertTrue(str(error).endswith('. The log is /c/node.log'), error)

    def test_an_exit_status_without_output_is_reported(self):
        self.assertIn('status 137', str(failure(recipe(), 137, [], 'l')))

    @given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=30)), max_size=20))
    def test_any_output_gives_an_error_with_the_path_of_the_log(self, lines):
        error = failure(recipe(), 1, lines, '/c/node.log')
        self.assertIsInstance(error, ImageError)
        self.assertIn('/c/node.log', str(error))
