"""Glance: images, in a folder."""

import pathlib
from collections.abc import Mapping

from ..processes import Process
from ..settings import Sections, common
from .base import Service


class Glance(Service):
    """Images."""

    name = 'glance'
    requirements = ('glance',)
    databases = ('glance',)
    catalog = ('image', '')

    @property
    def config(self) -> pathlib.Path:
        """Its own configuration file."""
        return self.etc / 'glance-api.conf'

    def folders(self) -> tuple[pathlib.Path, ...]:
        return tuple(self.data / name for name in ('images', 'staging', 'tasks'))

    def files(self) -> Mapping[pathlib.Path, Sections]:
        sections = common(
            self.place,
            self.name,
            enabled_backends='file:file',
            enabled_import_methods='[]',
            workers=0,
        )
        images, staging, tasks = self.folders()
        sections['glance_store'] = {'default_backend': 'file'}
        sections['file'] = {'filesystem_store_datadir': images}
        sections['os_glance_staging_store'] = {'filesystem_store_datadir': staging}
        sections['os_glance_tasks_store'] = {'filesystem_store_datadir': tasks}
        sections['paste_deploy'] = {'flavor': 'keystone'}
        return {self.config: sections}

    def copies(self) -> Mapping[pathlib.Path, pathlib.Path]:
        name = 'glance-api-paste.ini'
        return {self.etc / name: self.venv.file(f'glance/{name}')}

    def schema(self) -> tuple[tuple[str | pathlib.Path, ...], ...]:
        manage = (*self.venv.script('glance-manage'), '--config-file', self.config)
        return ((*manage, 'db_sync'),)

    def processes(self) -> tuple[Process, ...]:
        return (self.api('glance.wsgi.api'),)

    def stored(self) -> tuple[pathlib.Path, ...]:
        return (self.data / 'images',)
