"""kiln as the compute driver of an unpatched Octavia.

``driver`` has the classes that Octavia loads; only it and ``errors`` import
Octavia. The other modules can be used, and tested, without it.
"""
