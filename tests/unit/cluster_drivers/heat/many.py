"""Many clusters on a played Heat at once, polled as kiln does and as Magnum did."""

import dataclasses
import random

from kiln.cluster_drivers.values import Progress
from kiln.testing.clock import VirtualClock
from tests.unit.cluster_drivers.heat.fake_heat import FakeHeat
from tests.unit.cluster_drivers.heat.made import FILE, cluster_of, context, generated

#: Seconds between two polls of a cluster by kiln's engine, and between two rounds of Magnum.
POLL_S, ROUND_S = 5.0, 10.0
#: Seconds in which all stacks are being created, and nothing changes.
STILL_S = 60.0
#: Seconds within which the stacks end, each at another time.
ENDING_S = 60.0
STEP_S = 0.5


@dataclasses.dataclass(frozen=True)
class Figures:
    """What it took to see many creations end."""

    #: Requests while nothing changed, and in each second of that.
    still: int
    still_per_s: float
    #: Requests from the first end to the last.
    ending: int
    #: The longest time from the end of a stack to its being seen.
    latest_s: float


class Many:
    """The creation of some clusters, each of which ends at a time of its own."""

    def __init__(self, heat, count, dice):
        self.clock = VirtualClock()
        self.heat = heat
        self.driver = generated(heat, self.clock)
        self.context = context()
        self.clusters = [self._created(f'c{number}') for number in range(count)]
        for stack in heat.stacks.values():
            stack['left_s'] = STILL_S + dice.uniform(0.0, ENDING_S)
        self.ended_at = {}
        self.seen_at = {}
        heat.requests.clear()

    def _created(self, id_):
        cluster = cluster_of(FILE, id_=id_)
        report = self.driver.create_cluster(
            context=self.context, cluster=cluster, cluster_create_timeout=600.0
        )
        return dataclasses.replace(
            cluster, driver_state=report.driver_state, driver_handle=report.driver_handle
        )

    def play(self, look):
        """Let time pass; ``look`` is called at each step with the clusters that are not seen."""
        still = None
        while self.clock.monotonic() < STILL_S + ENDING_S + 2 * ROUND_S:
            look([one for one in self.clusters if one.id not in self.seen_at])
            if still is None and self.clock.monotonic() >= STILL_S:
                still = len(self.heat.requests)
            self.clock.advance(STEP_S)
            self.heat.work(STEP_S)
            for stack in self.heat.stacks.values():
                if stack['status'] == 'COMPLETE':
                    self.ended_at.setdefault(stack['name'], self.clock.monotonic())
        late = [self.seen_at[one.id] - self.ended_at[one.driver_handle] for one in self.clusters]
        ending = len(self.heat.requests) - still
        return Figures(still, still / STILL_S, ending, max(late))

    def seen(self, cluster):
        self.seen_at.setdefault(cluster.id, self.clock.monotonic())


def by_kiln(count, seed=7):
    """Return what it takes kiln's driver, polled every 5 s at another moment for each cluster."""
    dice = random.Random(seed)
    with FakeHeat() as heat:
        many = Many(heat, count, dice)
        due = {one.id: dice.uniform(0.0, POLL_S) for one in many.clusters}

        def look(open_ones):
            for one in open_ones:
                if due[one.id] <= many.clock.monotonic():
                    due[one.id] += POLL_S
                    report = many.driver.update_cluster_status(many.context, one)
                    if report.progress is Progress.COMPLETE:
                        many.seen(one)

        return many.play(look)


def by_a_loop(count, seed=7):
    """Return what it takes a loop that reads each stack, as Magnum's last poller did.

    It read the stack of each group every ten seconds, and the outputs once the stack had ended.
    """
    dice = random.Random(seed)
    with FakeHeat() as heat:
        many = Many(heat, count, dice)
        client = many.driver._client(many.context)
        due = 0.0

        def look(open_ones):
            nonlocal due
            if many.clock.monotonic() < due:
                return
            due += ROUND_S
            for one in open_ones:
                name, id_ = one.driver_handle, one.driver_state['id']
                for _ in one.spec.groups:
                    client.outputs(name, id_)
                if many.ended_at.get(name) is not None:
                    client.outputs(name, id_)
                    many.seen(one)

        return many.play(look)
