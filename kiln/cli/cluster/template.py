"""Commands about cluster templates."""

from __future__ import annotations

import argparse

from kiln.cli.arguments import argument
from kiln.cli.base import KilnCommand, KilnLister, Rows
from kiln.cli.cluster.cluster_file import read_page
from kiln.cli.exit_codes import UsageError
from kiln.cli.output.views import cells

TEMPLATE = argument('template', metavar='TEMPLATE', help='Name of the template.')


class List(KilnLister):
    """List the saved templates."""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_site() as site:
            templates = site.clusters.templates.list()
        columns = ('name', 'coe', 'driver', 'image', 'groups')
        return columns, [
            cells([one.name, one.coe, one.driver, one.machine.image, [g.name for g in one.groups]])
            for one in templates
        ]


class Show(KilnCommand):
    """Print a template as a cluster file."""

    arguments = (TEMPLATE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            template = site.clusters.templates.get(parsed_args.template)
        from kiln.cluster_file.writing import dump

        self.app.stdout.write(dump(template))


class Save(KilnCommand):
    """Save the templates of a file; they replace templates of the same names."""

    arguments = (
        argument(
            'file',
            metavar='FILE',
            help='YAML file, or - for standard input; its clusters are ignored.',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        path = parsed_args.file
        templates = read_page(path, self.app.stdin).templates
        if not templates:
            raise UsageError(f'Cannot save templates of {path}: it does not declare a template.')
        with self.app.open_site() as site:
            for template in templates:
                site.clusters.templates.save(template)
        self.app.say(f'Saved {", ".join(template.name for template in templates)}.')


class Remove(KilnCommand):
    """Remove a template that no cluster uses."""

    arguments = (TEMPLATE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_site() as site:
            # Raises an error if the template does not exist.
            site.clusters.templates.get(parsed_args.template)
            site.clusters.templates.remove(parsed_args.template)
