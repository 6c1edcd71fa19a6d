"""Conductors that are killed with -9, on the real Heat.

KILN_HEAT_KILLS is their number, and has both drivers judged; a soak uses 30.
"""

import os

from tests.functional.heat import real_kills

SOAK = 'KILN_HEAT_KILLS' in os.environ


class Kills(real_kills.RealKilling):
    kills = int(os.environ.get('KILN_HEAT_KILLS', '2'))


if SOAK:

    class GroupKills(Kills):
        driver = 'heat_group_v1'
