"""Bare Debian machines in which a command meets a checkout as a new user does.

``python -m tools.freshroot run -- make demo`` runs one; see doc/source/contributor/freshroot.rst.

``roots.py`` makes and caches the roots, ``mounts.py`` makes one usable, ``cases.py`` has the
cases, ``session.py`` is one run, and ``namespaces.py`` ensures that nothing of a run outlives
the tool.
"""
