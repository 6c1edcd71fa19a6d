"""Builds outside the source tree; all metadata is in setup.cfg."""

import sys
import tempfile

import setuptools

# What setuptools makes on the way would stay in the tree, as root's if root installs, and a
# later build would take files from it that the tree no longer has. An sdist is the exception:
# it copies what it made, from the tree. The folder goes when this process ends. Nothing here
# depends on time; tools/dist.py makes the archives the same bytes each time.
away = tempfile.TemporaryDirectory(prefix='kiln-build-')
options = {'build': {'build_base': away.name}}
if 'sdist' not in sys.argv:
    options['egg_info'] = {'egg_base': away.name}

setuptools.setup(options=options)
