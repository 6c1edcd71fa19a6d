"""The command ``kiln driver doc``: guides from the class and the folder of a driver."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from kiln.cli.arguments import TEXT_FORMAT
from kiln.cli.base import KilnCommand
from kiln.cli.driver.lookup import DRIVER, KIND, class_of_cluster, cluster_record, kind_of
from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.calls import open_driver
from kiln.cluster_drivers.discovery.guide import home_of, image_guide, readme_in
from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.records import DriverRecord
from kiln.compute.loading import load_compute_driver


class Doc(KilnCommand):
    """Print the guide of a driver: its purpose, its options and the image it needs."""

    arguments = (DRIVER, KIND, TEXT_FORMAT)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        name = parsed_args.driver
        if kind_of(self.app.settings, name, parsed_args.kind) == 'compute':
            guide = of_compute(name, load_compute_driver(name))
        else:
            record = cluster_record(self.app.settings, name)
            guide = of_cluster(record, class_of_cluster(self.app.settings, record))
        self.write_as(parsed_args.formatter, text=guide.render(), data=dataclasses.asdict(guide))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Guide:
    """The guide of a driver."""

    title: str
    #: The README or docstring of the author.
    text: str
    #: Names and their meanings, by heading.
    lists: Mapping[str, Mapping[str, str]]
    #: The author's instructions for building the image.
    image: str = ''

    def render(self) -> str:
        """Return the guide as plain text."""
        return '\n'.join(self._lines()).rstrip()

    def _lines(self) -> Iterator[str]:
        yield from (self.title, '=' * len(self.title), '')
        if self.text:
            yield from (self.text.strip(), '')
        for heading, entries in self.lists.items():
            yield from (heading, '-' * len(heading))
            for name, meaning in entries.items():
                yield f'  {name}: {meaning}' if meaning else f'  {name}'
            yield ''
        if self.image:
            yield from ('How to build the image', '-' * 22, self.image.strip())


def of_compute(name: str, driver_class: Any) -> Guide:
    """Return the guide of a compute driver: its docstring and its options."""
    options = {opt.dest: opt.help or '' for opt in driver_class.options}
    return Guide(
        title=f'Compute driver {name}',
        text=inspect.getdoc(driver_class) or '',
        lists={'Options': options} if options else {},
    )


def of_cluster(record: DriverRecord, driver_class: type[ClusterDriver]) -> Guide:
    """Return the guide of a cluster driver; its README comes first, if it has one."""
    image = image_guide(driver_class)
    lists: dict[str, Mapping[str, str]] = {
        'Origin': {record.origin: f'{record.state.value}, digest {record.digest}'},
        'It builds': {str(one): '' for one in record.provides},
        'It can': {cap.value.replace('_', ' '): '' for cap in sorted(driver_class.capabilities)},
        'Verbs': {name: verb.help for name, verb in driver_class.verbs.items()},
        **_of_templates(driver_class),
        'Properties of its image': {
            name: ' or '.join(values) or 'any' for name, values in image.properties.items()
        },
    }
    return Guide(
        title=f'Cluster driver {record}',
        text=_readme(driver_class),
        lists={heading: entries for heading, entries in lists.items() if entries},
        image=image.text,
    )


def _readme(driver_class: type[ClusterDriver]) -> str:
    home = home_of(driver_class)
    # The README beside a class without a folder of its own belongs to another project.
    if home.name == driver_class.name and (text := readme_in(home)) is not None:
        return text
    return '' if hasattr(driver_class, 'directory') else inspect.getdoc(driver_class) or ''


def _of_templates(driver_class: type[ClusterDriver]) -> Mapping[str, Mapping[str, str]]:
    if not issubclass(driver_class, NodeClusterDriver):
        return {}
    definition = open_driver(driver_class).template_definition
    return {
        'Parameters': {
            name: _described(one) for name, one in definition.parameters.items() if not one.source
        },
        'Outputs': {name: one.help for name, one in definition.outputs.items()},
    }


def _described(one: Parameter) -> str:
    facts = [one.type.value]
    facts += ['required'] if one.required else []
    facts += ['the name of a secret'] if one.secret else []
    facts += [f'one of {", ".join(map(str, one.choices))}'] if one.choices else []
    facts += [f'default {one.default!r}'] if one.default is not None else []
    return f'{one.help} ({", ".join(facts)})'.strip()
