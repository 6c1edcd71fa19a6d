"""Stacks and servers as Heat and Nova return them, and the parts of a build."""

import types

from kiln.compute_drivers.nova.building import body
from kiln.models import BuildRequest
from kiln.openstack.heat.rows import StackRow

ID = 'd668b9ea-a625-44b9-9264-79789c7f9685'
PLAIN = types.SimpleNamespace(config_drive=False)
CHOSEN = body.Chosen(
    flavor_id='f-1', image_id='i-1', networks=(), security_groups=(), availability_zone=None,
    key_name=None, content=body.Content(user_data=None),
)  # fmt: skip
SERVER = {
    'id': '8e9e15f8-da3c-4a08-9afe-56c67d63233d',
    'name': 'web-1',
    'status': 'ACTIVE',
    'created': '2026-11-28T07:03:45Z',
    'flavor': {'original_name': 'tiny'},
    'image': {'id': 'i-1'},
    'metadata': {'a': 'b', 'kiln:type': 'vm', 'kiln:flavor': 'f-1'},
    'addresses': {
        'net1': [{'addr': '10.64.2.22', 'OS-EXT-IPS-MAC:mac_addr': 'fa:16:3e:d0:f0:62'}],
    },
    'OS-EXT-STS:vm_state': 'active',
    'OS-EXT-STS:task_state': None,
    'OS-EXT-AZ:availability_zone': 'az1',
    'OS-SRV-USG:launched_at': '2026-11-28T07:03:47.000000',
    'OS-EXT-SRV-ATTR:user_data': 'c2VjcmV0',
    'tags': ['kiln-heat:east', f'kiln-stack:{ID}'],
}


def request(**more):
    """Return the request of a build."""
    return BuildRequest(**{'build_key': 'k-1', 'name': 'web-1', 'owner': 'east', **more})


def chosen(**more):
    """Return the resolved parts of a build."""
    facts = {name: getattr(CHOSEN, name) for name in CHOSEN.__slots__}
    return body.Chosen(**(facts | more))


def row(state, reason=''):
    """Return a stack in a state such as CREATE_COMPLETE, as a list has it."""
    return StackRow.read({
        'id': ID, 'stack_name': 'kiln-east-k-1-0', 'stack_status': state,
        'stack_status_reason': reason, 'creation_time': '2026-11-28T07:03:43Z',
        'updated_time': None, 'tags': ['kiln-site:east', 'kiln-key:k-1'],
    })  # fmt: skip
