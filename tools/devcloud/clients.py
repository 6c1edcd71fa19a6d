"""Client configuration of a cloud: clouds.yaml and shell variables."""

import json
import shlex
from typing import Any

from .place import PASSWORD, REGION, Place

# The names in clouds.yaml, each with its user and project.
PEOPLE = {
    'kiln': ('admin', 'admin'),
    'kiln-user': ('demo', 'demo'),
    'kiln-small': ('small', 'small'),
}


def clouds(place: Place) -> dict[str, Any]:
    """Return the clouds by name, as clouds.yaml has them."""
    entries = {
        name: {'username': user, 'project_name': project, 'project_domain_name': 'Default'}
        for name, (user, project) in PEOPLE.items()
    }
    # Ironic refuses tokens that are scoped to a project.
    entries['kiln-system'] = {'username': 'admin', 'system_scope': 'all'}
    return {
        name: {
            'region_name': REGION,
            'auth': {
                'auth_url': place.keystone,
                'password': PASSWORD,
                'user_domain_name': 'Default',
                **auth,
            },
        }
        for name, auth in entries.items()
    }


def clouds_yaml(place: Place) -> str:
    """Return clouds.yaml; JSON is YAML that needs no library."""
    return json.dumps({'clouds': clouds(place)}, indent=1) + '\n'


def exports(place: Place) -> str:
    """Return the shell commands that select the cloud."""
    values = {
        'KILN_CLOUD_HOME': str(place.home),
        'OS_CLIENT_CONFIG_FILE': str(place.clouds_yaml),
        'OS_CLOUD': 'kiln',
    }
    lines = [f'export {name}={shlex.quote(value)}' for name, value in values.items()]
    programs = shlex.quote(str(place.home / 'venv' / 'bin'))
    return '\n'.join([*lines, f'export PATH={programs}:"$PATH"'])
