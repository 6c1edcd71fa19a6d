"""Resources and nested stacks of a stack of the played Heat, as it lists them."""

import yaml

SERVER, GROUP = 'OS::Nova::Server', 'OS::Heat::ResourceGroup'


def failed_resources(stack):
    """Return a failed resource in a nested stack, and the resource that the nested one is."""
    if not stack['failure'] or stack['status'] != 'FAILED':
        return []
    status = f'{stack["action"]}_FAILED'
    base = f'http://heat/v1/project/stacks/{stack["name"]}'
    nested = f'{base}-inner/{stack["id"]}-inner'
    return [
        {
            'resource_name': 'workers', 'resource_type': GROUP, 'resource_status': status,
            'resource_status_reason': 'resources.workers: failed',
            'links': [
                {'rel': 'stack', 'href': f'{base}/{stack["id"]}'},
                {'rel': 'nested', 'href': nested},
            ],
        },
        {
            'resource_name': '2', 'resource_type': SERVER, 'resource_status': status,
            'resource_status_reason': f'ResourceInError: {stack["failure"]}',
            'links': [{'rel': 'stack', 'href': nested}],
        },
    ]  # fmt: skip


def resources(stack):
    """Return the servers of a stack, and the nested stacks that lead to those of groups."""
    base = 'http://heat/v1/project/stacks'
    found = []
    for name, one in stack['live'].items():
        *parents, last = name.split('.') if '.' in name else [name]
        at = stack['id']
        for part in [*parents, last] if parents else []:
            nested = f'{at}-{part}'
            found.append({
                'resource_name': part, 'resource_type': GROUP, 'physical_resource_id': nested,
                'links': [
                    {'rel': 'stack', 'href': f'{base}/x/{at}'},
                    {'rel': 'nested', 'href': f'{base}/x/{nested}'},
                ],
            })  # fmt: skip
            at = nested
        found.append({
            'resource_name': 'server' if parents else name, 'resource_type': one['type'],
            'physical_resource_id': one['id'],
            'links': [{'rel': 'stack', 'href': f'{base}/x/{at}'}],
        })  # fmt: skip
    return found


def template_of(stacks, id_):
    """Return the template of a stack, or of a nested one as :func:`resources` names them."""
    if id_ in stacks:
        return stacks[id_]['template']
    stack = next(one for known, one in stacks.items() if id_.startswith(known))
    group, *member = id_.removeprefix(f'{stack["id"]}-').split('-')
    inner = stack['template']['resources'][group]['properties']['resource_def']
    if not member:
        names = [name.rpartition('.') for name in stack['live']]
        return {'resources': {name: inner for at, _, name in names if at == group}}
    return yaml.safe_load(stack['files'][stack['registry'].get(inner['type'], inner['type'])])
