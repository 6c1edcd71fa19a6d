"""A process that claims and releases machines until it is killed.

    python -m tests.functional.appliance.victim FOLDER PREFIX [COUNT [stay]]

With a count it claims that many machines, keeps them, and prints which.
"""

import sys
import time

from kiln.compute_drivers.appliance.driver import ApplianceDriver
from kiln.exceptions import InsufficientCapacity
from kiln.models import AmphoraType, State
from tests.functional.appliance.yard import StrictYard


def claim(driver, key):
    return driver.build(AmphoraType.BARE_METAL, build_key=key, name=key, user_data=key)


def keep(driver, prefix, count):
    for number in range(count):
        try:
            amphora_id = claim(driver, f'{prefix}-{number}')
        except InsufficientCapacity:
            break
        print('has', driver.get_amphora(amphora_id=amphora_id).raw['machine'], flush=True)


def churn(driver, prefix):
    """Keep three amphorae at a time; delete the oldest one, whatever its state."""
    ids = []
    for number in range(10**9):
        key = f'{prefix}-{number}'
        print('asks', key, flush=True)
        try:
            ids.append(claim(driver, key))
            print('has', key, ids[-1], flush=True)
        except InsufficientCapacity:
            time.sleep(0.01)
        if len(ids) == 3 or (ids and number % 4 == 0):
            # Sometimes one that is up; otherwise one that is still being claimed.
            if number % 2 and driver.status(ids[0]).state is not State.ACTIVE:
                time.sleep(0.03)
            driver.delete(ids.pop(0))
        time.sleep(0.005)


def main(folder, prefix, count=None, stay=''):
    driver = ApplianceDriver.open(StrictYard(folder).options, name='pool', owner='us')
    if count is None:
        churn(driver, prefix)
    keep(driver, prefix, int(count))
    if stay:
        time.sleep(600)
    driver.close()


if __name__ == '__main__':
    main(*sys.argv[1:])
