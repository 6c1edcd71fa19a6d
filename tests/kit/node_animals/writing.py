"""Drivers whose files no program can read, or too many people."""

import json
import pathlib

from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.templates.mappings import OutputMapping, ParameterMapping
from kiln.cluster_drivers.values import Bootstrap, join_token
from kiln.models import InjectedFile
from tests.kit.cluster_animals import Right

TEMPLATES = pathlib.Path(__file__).parent / 'templates'


def written(path, text, **more):
    return Bootstrap(files=(InjectedFile(path=path, content=text.encode(), **more),))


class Writing(Right):
    """Correct: writes a text and a secret as JSON."""

    def get_template_definition(self):
        definition = TemplateDefinition(TEMPLATES, 'key.sh')
        definition.add_parameter(ParameterMapping(name='word', default='hello'))
        definition.add_parameter(ParameterMapping(name='key', secret=True, required=True))
        definition.add_output(OutputMapping(name='word', text='{{ word }}'))
        return definition

    def bootstrap(self, context, cluster, node):
        super().bootstrap(context, cluster, node)
        params = self.template_definition.get_params(context, cluster, node)
        return self.file_of(params['word'], context.secrets.get(params['key']))

    def file_of(self, word, key):
        return written('/etc/kit.json', json.dumps({'word': word, 'key': key}), mode=0o600)


class Broken(Right):
    """Leaves a comma too much."""

    def bootstrap(self, context, cluster, node):
        return written('/etc/kit.json', '{"node": 1,}')


class Unquoted(Writing):
    """Writes a text as it is into YAML, where some texts are numbers."""

    def file_of(self, word, key):
        return written('/etc/kit.yaml', f'word: {word}\nkey: {json.dumps(key)}\n', mode=0o600)


class Trusting(Writing):
    """Puts its own quotes around a secret."""

    def file_of(self, word, key):
        return written('/etc/kit.json', f'{{"key": "{key}"}}', mode=0o600)


class Bare(Right):
    """Has a script without the line that makes it one."""

    def get_template_definition(self):
        return TemplateDefinition(TEMPLATES, 'bare.sh')


class Open(Right):
    """Lets every user of a machine read its token."""

    def bootstrap(self, context, cluster, node):
        return written('/etc/token', join_token(context, node))


class Plain(Right):
    """Has a password that is stored and shown."""

    def get_template_definition(self):
        definition = TemplateDefinition(directory=None)
        definition.add_parameter(ParameterMapping(name='admin_password', default='none'))
        definition.add_output(OutputMapping(name='word', text='{{ admin_password }}'))
        return definition


class Guessable(Right):
    """Takes the name of a node for its token."""

    def bootstrap(self, context, cluster, node):
        return written('/etc/kit.json', json.dumps({'join_token': node.name}))


class Numeric(Right):
    """Writes a mode that YAML reads as another number."""

    def bootstrap(self, context, cluster, node):
        file = '{path: /a, content: b, permissions: 0755}'
        return Bootstrap(user_data=f'#cloud-config\nwrite_files: [{file}]\n'.encode())


class Namesake(Right):
    """Gives all nodes the same name."""

    def bootstrap(self, context, cluster, node):
        return Bootstrap(user_data=f'#cloud-config\nhostname: {cluster.name}\n'.encode())
