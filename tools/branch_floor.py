"""Coverage gate: fails if too few branches are covered.

Reads what ``coverage json -o -`` prints; takes the floor in per cent.
"""

import json
import sys

FLOOR = float(sys.argv[1])
totals = json.load(sys.stdin)['totals']
share = 100 * totals['covered_branches'] / totals['num_branches']
print(f'{share:.1f} % of {totals["num_branches"]} branches are covered; the floor is {FLOOR:g} %')
sys.exit(share < FLOOR)
