"""The door for foreign text: answers of nodes, backends, hooks and job boards.

Whatever another party sends passes here: at most so many bytes, within one deadline for
the whole exchange, of a bounded depth, and without characters that act on a terminal.
"""
