"""Kept for pbr, which still reads it; everything is in setup.cfg."""

import setuptools

setuptools.setup(pbr=True)
