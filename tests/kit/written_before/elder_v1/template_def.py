"""How the templates are filled in."""

from __future__ import annotations

from pathlib import Path

from kiln.cluster_drivers.mappings import FileMapping, OutputMapping, ParameterMapping
from kiln.cluster_drivers.parameters import ParameterType
from kiln.cluster_drivers.template_def import TemplateDefinition


class ExampleTemplateDefinition(TemplateDefinition):
    """A script that starts the page's server, and a file with what it shows."""

    def __init__(self) -> None:
        super().__init__(Path(__file__).parent / 'templates', 'start.sh')
        self.add_parameter(
            ParameterMapping(
                name='port', type=ParameterType.INTEGER, default=8080, minimum=1, maximum=65_535,
                help='Where each node shows its page.',
            )
        )  # fmt: skip
        self.add_parameter(
            ParameterMapping(name='greeting', default='Hello', help='What the page says.')
        )
        self.add_parameter(ParameterMapping(name='host', source='node.name'))
        self.add_file(FileMapping(path='/etc/kiln-example.json', template='example.json'))
        self.add_output(
            OutputMapping(
                name='pages', text='http://{{ node.address }}:{{ port }}/', each=True,
                help='Where the pages are.',
            )
        )  # fmt: skip
