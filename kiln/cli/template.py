"""Commands about templates for clusters, and the schema of the file they are written in."""

from __future__ import annotations

import argparse
import json

from kiln.cli.base import KilnCommand, KilnLister, Rows
from kiln.cli.exit_codes import UsageError
from kiln.cli.pages import read_page
from kiln.cli.stores import clusters_extra, configured_site
from kiln.cli.views import cells


def add_template(parser: argparse.ArgumentParser) -> None:
    """Let the command take one template."""
    parser.add_argument('template', metavar='TEMPLATE', help='Name of the template.')


class List(KilnLister):
    """List the templates that are saved."""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Read the store."""
        with configured_site(self.app.settings, self.app.clock) as site:
            templates = site.clusters.templates()
        columns = ('name', 'coe', 'driver', 'image', 'groups')
        return columns, [
            cells(
                [
                    one.name,
                    one.coe,
                    one.driver,
                    one.machine.image,
                    [group.name for group in one.groups],
                ]
            )
            for one in templates
        ]


class Show(KilnCommand):
    """Print a template as the file that would declare it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_template(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Read the store."""
        with configured_site(self.app.settings, self.app.clock) as site:
            template = site.clusters.template(parsed_args.template)
        from kiln.cluster_file.writing import dump

        self.app.stdout.write(dump(template))


class Save(KilnCommand):
    """Save the templates of a file, in the place of those that have their names."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'file',
            metavar='FILE',
            help='YAML, or - for the standard input; its clusters are left alone.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Read the file, and write the store."""
        path = parsed_args.file
        templates = read_page(path, self.app.stdin).templates
        if not templates:
            raise UsageError(f'Cannot save templates of {path}: it has none.')
        with configured_site(self.app.settings, self.app.clock) as site:
            for template in templates:
                site.clusters.save_template(template)
        self.app.say(f'Saved {", ".join(template.name for template in templates)}.')


class Remove(KilnCommand):
    """Remove a template that no cluster is made from."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_template(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write the store; one that is not there is an error of who asks."""
        with configured_site(self.app.settings, self.app.clock) as site:
            site.clusters.template(parsed_args.template)
            site.clusters.remove_template(parsed_args.template)


class Schema(KilnCommand):
    """Print the JSON schema of the cluster file, for editors."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print it."""
        with clusters_extra():
            from kiln.cluster_file.schema import json_schema
        self.app.stdout.write(f'{json.dumps(json_schema(), indent=2)}\n')
