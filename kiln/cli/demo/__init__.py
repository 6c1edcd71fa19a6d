"""The command ``kiln demo``: a cluster on a simulated cloud in half a minute."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import argument, flag, seconds, whole
from kiln.cli.base import KilnCommand
from kiln.cli.demo.stage import Stage
from kiln.cli.exit_codes import ExitCode


class Demo(KilnCommand):
    """Build, shrink, repair and delete a cluster on a simulated cloud; needs no server.

    One engine is killed halfway. --compute shows single machines and a cloud that
    breaks instead.
    """

    arguments = (
        argument(
            '--swarm',
            metavar='URL',
            help='Run a real Docker Swarm on the Docker Engine at this URL, such as '
            'unix:///var/run/docker.sock.',
        ),
        flag('--compute', 'Show a fleet of machines instead of a cluster.'),
        argument(
            '--fleet',
            type=whole,
            default=50,
            help='With --compute: number of machines (default: 50).',
        ),
        argument(
            '--pace',
            type=seconds,
            default=1.0,
            metavar='FACTOR',
            help='Multiply the delays of the cloud; 0.2 is five times as fast.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        stage = Stage(self.app.stdout, self.app.clock)
        if parsed_args.swarm:
            from kiln.cli.demo import swarm

            self.status = swarm.play(stage, parsed_args.swarm)
            if self.status:
                return
        elif parsed_args.compute:
            from kiln.cli.demo import fleet

            fleet.play(stage, parsed_args.fleet, parsed_args.pace)
        else:
            from kiln.cli.demo import clusters

            clusters.play(stage, parsed_args.pace)
        if not stage.end():
            self.status = ExitCode.UNFORESEEN
