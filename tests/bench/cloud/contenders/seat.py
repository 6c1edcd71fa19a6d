"""What a contender's process says and hears; only the standard library is needed.

It reads one line of JSON that says what to build from, logs in, and answers
``ready``. Then each line is a task, and each answer says what it took.
"""

import json
import sys
import time


def sit(open_contender):
    """Serve one contender, ``open_contender(given)``, until its input ends.

    It has ``build(names)``, which returns when each server was seen ACTIVE, by
    its id, and ``delete(ids)``, which returns when all deletes were agreed to.
    """
    contender = open_contender(json.loads(sys.stdin.readline()))
    _say('ready')
    for line in sys.stdin:
        task, subjects = json.loads(line)
        wall, cpu = time.monotonic(), time.process_time()
        result = getattr(contender, task)(subjects)
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        _say({'result': result, 'cpu_s': cpu, 'wall_s': wall})
    contender.close()


def _say(what):
    print(json.dumps(what), flush=True)
