"""Command that renews the secrets of a cluster: cluster rotate."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import argument
from kiln.cli.cluster.base import ChangingCluster
from kiln.cluster_service import requests


class Rotate(ChangingCluster):
    """Renew the credentials or the certificate authority of a cluster."""

    arguments = (
        argument(
            'what',
            choices=['credential', 'ca-certificate'],
            help='credential: with which the cluster uses the cloud; ca-certificate: the '
            "certificate authority of the cluster. 'kiln driver doc' says what a driver can "
            'rotate.',
        ),
    )

    def request(self, args: argparse.Namespace) -> requests.Request:
        what = requests.Rotated(args.what.replace('-', '_'))
        return requests.Rotate(cluster=args.cluster, what=what)
