"""Template definition of Swarm nodes: parameters, files and outputs."""

from __future__ import annotations

from pathlib import Path

from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.mappings import FileMapping, OutputMapping, ParameterMapping

#: The folder of the certificates and keys on a machine.
HOME = '/etc/kiln-swarm'


class SwarmTemplateDefinition(TemplateDefinition):
    """The engine's configuration, its certificate at each start, and the first boot.

    A machine takes at most five files, so content without secrets is in the user data.
    """

    def __init__(self) -> None:
        super().__init__(Path(__file__).parent / 'templates', 'user-data.yaml')
        self._add_parameters()
        self.add_file(FileMapping(path='/etc/docker/daemon.json', template='daemon.json'))
        self.add_file(FileMapping(path=f'{HOME}/certify', template='certify.sh', mode=0o755))
        url = 'tcp://{{ node.host }}:2376'
        shown = 'The API addresses of the managers, over TLS.'
        self.add_output(OutputMapping(name='api', text=url, role='control', each=True, help=shown))

    def _add_parameters(self) -> None:
        for mapping in (
            ParameterMapping(
                name='labels', type=ParameterType.MAP, default={},
                help='Labels of the nodes in the swarm, beside kiln.node, kiln.group, kiln.zone.',
            ),
            ParameterMapping(
                name='availability', default='active', choices=('active', 'pause', 'drain'),
                help='Whether nodes take tasks; set drain for managers that only manage.',
            ),
            ParameterMapping(
                name='registry_mirrors', type=ParameterType.LIST, default=(),
                help='URLs of mirrors that are tried before the registry of an image.',
            ),
            ParameterMapping(
                name='insecure_registries', type=ParameterType.LIST, default=(),
                help='Registries that can be used without TLS.',
            ),
            ParameterMapping(
                name='log_max_size', default='10m',
                help='Size of a container log file before a new file is started.',
            ),
            ParameterMapping(
                name='log_max_files', type=ParameterType.INTEGER, default=3, minimum=1,
                help='Number of log files that are kept for each container.',
            ),
            ParameterMapping(
                name='install', type=ParameterType.BOOLEAN, default=True,
                help='Install Docker from the Debian archive if the image lacks it.',
            ),
            ParameterMapping(name='node_name', source='node.name'),
        ):  # fmt: skip
            self.add_parameter(mapping)
