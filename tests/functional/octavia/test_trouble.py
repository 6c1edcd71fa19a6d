"""Nova goes away, answers get lost: the real Octavia hears nothing of it through kiln.

KILN_OUTAGE_S sets how long Nova is away; a soak takes 60.
"""

import os
import time

from kiln.testing.proxy import Answer, Hang, LoseAnswer, Reset
from tests.functional.octavia.site import OctaviaCase

AWAY_S = float(os.environ.get('KILN_OUTAGE_S', '15'))


class Outage(OctaviaCase):
    def test_what_was_under_way_when_nova_went_ends_well_when_it_is_back(self):
        old = [self.create(f'old-{number}') for number in range(2)]
        self.all_settle(old, 'ACTIVE')
        self.proxy.forget()
        early = self.create('early')
        self.assertTrue(self.proxy.wait_for(1, 'POST', '/servers', seconds=60))
        self.delete(old[0])
        self.nova_down()
        down_at = time.monotonic()
        late = self.create('late')
        self.delete(old[1])
        time.sleep(max(0.0, down_at + AWAY_S - time.monotonic()))
        self.nova_up()
        back_at = time.monotonic()
        self.all_settle(old, None)
        self.all_settle([early, late], 'ACTIVE')
        print(f'Nova away for {AWAY_S:.0f} s: all done {time.monotonic() - back_at:.1f} s later')
        self.assert_served(early, late)
        for identity in (early, late):
            self.delete(identity)
        self.all_settle([early, late], None)
        self.assert_nothing_left()


class Answers(OctaviaCase):
    # So long kiln waits for an answer; the default is a minute.
    options = {'compute:nova': {'timeout': 5}}  # noqa: RUF012

    def test_however_the_answer_to_a_build_gets_lost_there_is_one_server(self):
        faults = (LoseAnswer(Reset()), LoseAnswer(Answer(502)), LoseAnswer(Hang()))
        rule = self.proxy.fault(faults, 'POST', '/servers')
        made = [self.create(f'lost-{number}') for number in range(len(faults))]
        self.all_settle(made, 'ACTIVE')
        self.assertEqual(len(faults), rule.hits)
        self.assert_served(*made)
        self.assertEqual(len(faults), len(self.servers()))
        for identity in made:
            self.delete(identity)
        self.all_settle(made, None)
        self.assert_nothing_left()
