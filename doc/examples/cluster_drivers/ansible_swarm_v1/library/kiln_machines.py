#!/usr/bin/python3
"""Ansible module: the machines of one cluster, by kiln's compute driver."""

import concurrent.futures
import json
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: kiln_machines
short_description: Builds and deletes the machines of a cluster with kiln
description:
  - Builds each wanted machine that does not exist, waits until it is active, tells its address.
  - With I(delete), deletes all other machines of the cluster instead.
options:
  kiln:
    description: The command of kiln.
    type: list
    elements: str
    required: true
  prefix:
    description: What the build keys of the cluster begin with.
    type: str
    required: true
  wanted:
    description: The machines that the cluster is to have.
    type: list
    elements: dict
    required: true
  user_data:
    description: The file with the user data of a machine.
    type: path
  delete:
    description: Whether to delete what is not wanted.
    type: bool
    default: false
"""
#: Each build has a process of its own.
AT_ONCE = 8


class KilnError(Exception):
    """What kiln says of a command that failed."""


def run(kiln, *words):
    done = subprocess.run([*kiln, 'compute', *words], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise KilnError(lines[-1] if lines else f'kiln ended with {done.returncode}')
    return done.stdout


def listed(kiln, prefix):
    """Return the machines of the cluster by their build keys."""
    found = json.loads(run(kiln, 'list', '-f', 'json'))
    return {one['build_key']: one for one in found if (one['build_key'] or '').startswith(prefix)}


def options(node, user_data):
    """Return the words by which kiln builds a node."""
    words = ['--name', node['name'], '--build-key', node['key'], '--user-data', user_data]
    for option, value in (
        ('--type', node['type']),
        ('--image', node['image']),
        ('--flavor', node['flavor']),
        ('--zone', node['zone']),
    ):
        words += [option, value] if value else []
    for option, values in (('--network', node['networks']), ('--sec-group', node['sec_groups'])):
        for value in values or ():
            words += [option, value]
    return words


def build(module, missing):
    kiln, user_data = module.params['kiln'], module.params['user_data']
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        builds = [
            pool.submit(run, kiln, 'build', '--wait', *options(node, user_data))
            for node in missing
        ]
    for one in builds:
        one.result()


def present(module):
    """Build what is missing; return the changes and the nodes."""
    kiln, prefix, wanted = (module.params[name] for name in ('kiln', 'prefix', 'wanted'))
    there = listed(kiln, prefix)
    broken = [one['id'] for one in there.values() if one['state'] == 'error']
    missing = [
        node for node in wanted
        if node['key'] not in there or there[node['key']]['id'] in broken
    ]  # fmt: skip
    if missing and not module.check_mode:
        if broken:
            run(kiln, 'delete', '--wait', *broken)
        build(module, missing)
        there = listed(kiln, prefix)
    nodes = [
        {**node, 'id': there[node['key']]['id'], 'address': there[node['key']]['addresses'][0]}
        for node in wanted
        if node['key'] in there and there[node['key']]['addresses']
    ]
    return [f'{node["name"]} is built' for node in missing], nodes


def absent(module):
    """Delete what is not wanted; return the changes, and no nodes."""
    kiln, prefix, wanted = (module.params[name] for name in ('kiln', 'prefix', 'wanted'))
    keys = {node['key'] for node in wanted}
    leaving = [one for key, one in listed(kiln, prefix).items() if key not in keys]
    if leaving and not module.check_mode:
        run(kiln, 'delete', '--wait', *(one['id'] for one in leaving))
    return [f'{one["name"]} is deleted' for one in leaving], []


def main():
    module = AnsibleModule(
        argument_spec={
            'kiln': {'type': 'list', 'elements': 'str', 'required': True},
            'prefix': {'type': 'str', 'required': True, 'no_log': False},
            'wanted': {'type': 'list', 'elements': 'dict', 'required': True, 'no_log': False},
            'user_data': {'type': 'path'},
            'delete': {'type': 'bool', 'default': False},
        },
        supports_check_mode=True,
    )
    try:
        changes, nodes = (absent if module.params['delete'] else present)(module)
    except KilnError as exc:
        module.fail_json(msg=str(exc))
    else:
        module.exit_json(changed=bool(changes), changes=changes, nodes=nodes)


if __name__ == '__main__':
    main()
