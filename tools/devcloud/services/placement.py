"""Placement: the free resources of each host."""

import pathlib
from collections.abc import Mapping

from ..processes import Process
from ..settings import Sections, common
from .base import Service


class Placement(Service):
    """Resource providers and allocations."""

    name = 'placement'
    requirements = ('openstack-placement',)
    databases = ('placement',)
    catalog = ('placement', '')
    living_tables = (
        'placement.consumer_types',
        'placement.resource_classes',
        'placement.traits',
    )

    def files(self) -> Mapping[pathlib.Path, Sections]:
        sections = common(self.place, self.name)
        sections['placement_database'] = sections.pop('database')
        sections['api'] = {'auth_strategy': 'keystone'}
        sections['placement'] = {'randomize_allocation_candidates': True}
        return {self.config: sections}

    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        manage = (*self.venv.script('placement-manage'), '--config-file', self.config)
        return ((*manage, 'db', 'sync'),)

    def processes(self) -> tuple[Process, ...]:
        return (self.api('placement.wsgi.api'),)
