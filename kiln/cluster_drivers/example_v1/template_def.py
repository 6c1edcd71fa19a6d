"""Template definition: parameters, files and outputs."""

from __future__ import annotations

from pathlib import Path

from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.mappings import FileMapping, OutputMapping, ParameterMapping


class ExampleTemplateDefinition(TemplateDefinition):
    """A script that starts a web server, and a file with the content of the page."""

    def __init__(self) -> None:
        super().__init__(Path(__file__).parent / 'templates', 'start.sh')
        self.add_parameter(
            ParameterMapping(
                name='port', type=ParameterType.INTEGER, default=8080, minimum=1, maximum=65_535,
                help='The port on which each node serves its page.',
            )
        )  # fmt: skip
        self.add_parameter(
            ParameterMapping(name='greeting', default='Hello', help='The text of the page.')
        )
        self.add_parameter(ParameterMapping(name='host', source='node.name'))
        self.add_file(FileMapping(path='/etc/kiln-example.json', template='example.json'))
        url = 'http://{{ node.host }}:{{ port }}/'
        shown = 'The addresses of the pages.'
        self.add_output(OutputMapping(name='pages', text=url, each=True, help=shown))
