"""Template definition: what each member is given, and what users are shown."""

from __future__ import annotations

from pathlib import Path

from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.mappings import FileMapping, OutputMapping, ParameterMapping


class QuorumTemplateDefinition(TemplateDefinition):
    """A script that starts the agent, and the file that the agent reads."""

    def __init__(self) -> None:
        super().__init__(Path(__file__).parent / 'templates', 'start.sh')
        self.add_parameter(
            ParameterMapping(
                name='port',
                type=ParameterType.INTEGER,
                default=4001,
                minimum=1024,
                maximum=65_535,
                help='The port at which the agent of each member answers.',
            )
        )
        self.add_parameter(
            ParameterMapping(
                name='key',
                secret=True,
                required=True,
                help='The name of the secret with which members encrypt their data.',
            )
        )
        self.add_file(FileMapping(path='/etc/quorum.json', template='quorum.json', mode=0o600))
        self.add_output(
            OutputMapping(
                name='members',
                text='http://{{ node.host }}:{{ port }}/',
                each=True,
                help='The address of each member.',
            )
        )
