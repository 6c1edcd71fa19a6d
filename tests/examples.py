"""How many examples a property is tried on: few each time, many in a soak."""

import os

#: A soak tries as many times more.
FACTOR = int(os.environ.get('KILN_EXAMPLES', '1'))


def examples(few):
    """Return how many to try, for a number that takes less than a second."""
    return few * FACTOR
