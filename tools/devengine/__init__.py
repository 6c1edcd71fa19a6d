"""A real Docker Engine, or Podman, on a private socket with private folders.

``python -m tools.devengine up`` brings it up; see doc/source/contributor/devengine.rst.

``engines.py`` has the configuration of each engine, ``engine.py`` starts and stops it,
``host.py`` restores the settings of the machine.
"""
