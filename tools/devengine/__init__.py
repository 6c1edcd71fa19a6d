"""A real Docker Engine, or Podman, on a private socket with private folders.

``python -m tools.devengine up`` brings it up; see doc/source/contributor/devengine.rst.

``engines.py`` says what each engine is started with, ``engine.py`` starts and ends it,
``host.py`` puts back what it changed on the machine.
"""
