"""A real, small OpenStack on loopback, from PyPI and three Debian packages.

``python -m tools.devcloud up`` brings it up; see doc/source/contributor/devcloud.rst.

A service is a description (``services/``): its packages, databases, files and
processes. ``cloud.py`` is the one engine that installs, configures, starts and
resets the described services.
"""
