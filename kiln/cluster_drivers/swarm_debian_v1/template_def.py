"""How the templates are filled in."""

from __future__ import annotations

from pathlib import Path

from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.mappings import FileMapping, OutputMapping, ParameterMapping

#: Where a machine has what it proves itself with.
HOME = '/etc/kiln-swarm'


class SwarmTemplateDefinition(TemplateDefinition):
    """The engine's configuration, a certificate for it at each start, and the first start.

    A machine may be given five files, so what has no secrets is in the user data.
    """

    def __init__(self) -> None:
        super().__init__(Path(__file__).parent / 'templates', 'user-data.yaml')
        self._add_parameters()
        self.add_file(FileMapping(path='/etc/docker/daemon.json', template='daemon.json'))
        self.add_file(FileMapping(path=f'{HOME}/certify', template='certify.sh', mode=0o755))
        self.add_output(
            OutputMapping(
                name='api', text='tcp://{{ node.address }}:2376', role='control', each=True,
                help='Where managers take calls, over TLS.',
            )
        )  # fmt: skip

    def _add_parameters(self) -> None:
        for mapping in (
            ParameterMapping(
                name='labels', type=ParameterType.MAP, default={},
                help='Labels of the nodes in the swarm, beside kiln.node, kiln.group, kiln.zone.',
            ),
            ParameterMapping(
                name='availability', default='active', choices=('active', 'pause', 'drain'),
                help='Whether nodes take tasks; managers that only manage are drained.',
            ),
            ParameterMapping(
                name='registry_mirrors', type=ParameterType.LIST, default=(),
                help='URLs that are asked for images before their own registries.',
            ),
            ParameterMapping(
                name='insecure_registries', type=ParameterType.LIST, default=(),
                help='Registries that may be spoken to without TLS.',
            ),
            ParameterMapping(
                name='log_max_size', default='10m',
                help='What the log of a container may take before a new file is begun.',
            ),
            ParameterMapping(
                name='log_max_files', type=ParameterType.INTEGER, default=3, minimum=1,
                help='Files of the log of a container that are kept.',
            ),
            ParameterMapping(
                name='install', type=ParameterType.BOOLEAN, default=True,
                help='Install Docker from the Debian of the image where the image lacks it.',
            ),
            ParameterMapping(name='node_name', source='node.name'),
        ):  # fmt: skip
            self.add_parameter(mapping)
