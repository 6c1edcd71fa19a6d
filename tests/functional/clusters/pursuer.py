"""A process that drives one operation of a command driver to its end, or is killed on the way.

Its arguments are a JSON object; what the driver reports is kept in a file, as the store of a site
keeps it. It prints the last progress and the reason.
"""

import dataclasses
import json
import os
import pathlib
import signal
import sys

from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.values import Progress
from kiln.clusters.models import Cluster, DriverPin
from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, Shape
from kiln.programs.detached import Runs
from kiln.testing.clusters import samples

#: Calls of functions of these modules are the moments at which a process can be killed.
_COUNTED = ('pursuit.py', 'detached.py', 'requests.py')


def cluster_of(driver_class, counts, theme):
    groups = tuple(
        NodeGroupSpec(name=name, shape=Shape(count=count)) for name, count in counts.items()
    )
    spec = ClusterSpec(
        name='killed', groups=groups, machine=MachineSpec(parameters={'theme': theme})
    )
    pin = DriverPin(name=driver_class.name, version=driver_class.version, origin='', digest='')
    return Cluster(id='killed-one', name='killed', spec=spec, generation=1, pin=pin)


class Pursuer:
    def __init__(self, given):
        self.kept = pathlib.Path(given['kept'])
        driver_class = load_directory(pathlib.Path(given['driver']))
        self.driver = driver_class()
        self.driver.runs_in = pathlib.Path(given['runs'])
        self.driver.variables = {'KILN_BENCH': given['bench']}
        cluster = cluster_of(driver_class, given['counts'], given['theme'])
        state = json.loads(self.kept.read_text()) if self.kept.exists() else {}
        self.cluster = dataclasses.replace(
            cluster, driver_state=state, generation=given['generation']
        )

    def run(self, verb):
        more = {'cluster_create_timeout': 600.0} if verb == 'create' else {}
        report = self.report(getattr(self.driver, f'{verb}_cluster'), **more)
        while report.progress is Progress.IN_PROGRESS:
            # Nothing is begun before what is asked is kept.
            if last := Runs(self.driver.runs_in, self.cluster.id).latest():
                last.wait()
            report = self.report(self.driver.update_cluster_status)
        return report

    def report(self, call, **more):
        report = call(context=samples.context(), cluster=self.cluster, **more)
        new = self.kept.with_suffix('.new')
        new.write_text(json.dumps(report.driver_state))
        new.replace(self.kept)
        self.cluster = dataclasses.replace(self.cluster, driver_state=report.driver_state)
        return report


def kill_at(moment):
    """Kill this process at a call of a function of the driver."""
    left = [moment]

    def look(frame, event, argument):
        if event == 'call' and frame.f_code.co_filename.endswith(_COUNTED):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    return lambda: moment - left[0]


def main():
    given = json.loads(sys.argv[1])
    pursuer = Pursuer(given)
    counted = kill_at(given['kill_at'])
    report = pursuer.run(given['verb'])
    sys.setprofile(None)
    print(json.dumps([report.progress.value, report.reason, counted()]))


if __name__ == '__main__':
    main()
