"""A Docker Engine in memory: the requests of kiln's driver, answered as the real one does.

The real engine needs a second or two for each container, and the kit makes some hundred of
them. So the hundreds of mutants of the driver are judged on this one. The right driver passes
the kit on both.
"""
