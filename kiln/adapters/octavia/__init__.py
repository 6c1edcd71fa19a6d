"""Octavia adapter: kiln as the compute driver of an unpatched Octavia.

``driver`` has the classes that Octavia loads; only ``driver`` and ``errors``
import Octavia. The other modules can be used and tested without it.
"""
