"""Networks of an engine in memory, and the connections of its containers."""

import copy
import datetime
import ipaddress
import secrets

from tests.functional.docker.simulated.refusals import Refused

_PREDEFINED = ('bridge', 'none')


class Networks:
    """Networks with a subnet each; an address is taken while a container has it."""

    def __init__(self):
        self._networks = {}
        for name in _PREDEFINED:
            self.create({'Name': name, 'Driver': 'null' if name == 'none' else 'bridge'})

    def create(self, body):
        given = ((body.get('IPAM') or {}).get('Config') or [{}])[0].get('Subnet')
        made = {
            'Id': secrets.token_hex(32), 'Name': body['Name'],
            'Driver': body.get('Driver') or 'bridge', 'Labels': body.get('Labels') or {},
            'Created': datetime.datetime.now(datetime.UTC).isoformat(),
            'IPAM': {'Config': [{'Subnet': given or f'10.77.{len(self._networks) % 256}.0/24'}]},
            # Only where its maker chose the subnet, containers can choose addresses.
            'Chosen': given is not None,
        }  # fmt: skip
        subnet = ipaddress.ip_network(made['IPAM']['Config'][0]['Subnet'])
        made['IPAM']['Config'][0]['Gateway'] = str(subnet[1])
        self._networks[made['Id']] = made
        return {'Id': made['Id']}

    def find(self, name):
        """Return a network by its name, its id, or the beginning of its id."""
        for one in self._networks.values():
            if one['Name'] == name or one['Id'].startswith(name):
                return one
        raise Refused(404, f'network {name} not found')

    def listed(self, filters):
        wanted = dict(text.split('=', 1) for text in filters.get('label', ()))
        names = filters.get('name', ())
        return [
            one
            for one in self._networks.values()
            if wanted.items() <= one['Labels'].items()
            and (not names or any(name in one['Name'] for name in names))
        ]

    def remove(self, name, containers):
        found = self.find(name)
        if any(found['Id'] in _ids(one) for one in containers):
            raise Refused(
                403,
                f'error while removing network: network {name} id {found["Id"]} has active '
                'endpoints',
            )
        del self._networks[found['Id']]

    # ---- connections -----------------------------------------------------

    def wanted(self, body):
        """Return the connections that a new container asks for; none is made yet."""
        mode = (body.get('HostConfig') or {}).get('NetworkMode') or 'bridge'
        given = (body.get('NetworkingConfig') or {}).get('EndpointsConfig') or {}
        return {mode: _hung('', given.get(mode))}

    def connect_all(self, container, containers):
        """Make the connections of a container that starts."""
        for name in container['NetworkSettings']['Networks']:
            self.find(name)
        for name, hung in container['NetworkSettings']['Networks'].items():
            network = self.find(name)
            hung.update(NetworkID=network['Id'], **self._address(network, hung, containers))

    def connect(self, name, container, config, containers):
        network = self.find(name)
        networks = container['NetworkSettings']['Networks']
        if network['Id'] in _ids(container):
            raise Refused(
                403,
                f'endpoint with name {container["Name"][1:]} already exists in network '
                f'{network["Name"]}',
            )
        if 'none' in networks:
            raise Refused(
                403,
                'container cannot be connected to multiple networks with one of the networks in '
                'private (none) mode',
            )
        hung = _hung(network['Id'], config)
        if container['State']['Status'] in ('running', 'paused'):
            hung.update(self._address(network, hung, containers))
        networks[network['Name']] = hung

    def disconnect(self, name, container):
        network = self.find(name)
        if network['Id'] not in _ids(container):
            raise Refused(
                403, f'container {container["Id"]} is not connected to network {network["Name"]}'
            )
        container['NetworkSettings']['Networks'] = {
            name: hung
            for name, hung in container['NetworkSettings']['Networks'].items()
            if hung['NetworkID'] != network['Id']
        }

    def release(self, container):
        """Give back the addresses of a container that ends."""
        for hung in container['NetworkSettings']['Networks'].values():
            hung.update(IPAddress='', EndpointID='', MacAddress='')

    def _address(self, network, hung, containers):
        if network['Driver'] == 'null':
            return {}
        subnet = ipaddress.ip_network(network['IPAM']['Config'][0]['Subnet'])
        taken = {
            other['IPAddress']
            for one in containers
            for other in one['NetworkSettings']['Networks'].values()
            if other['NetworkID'] == network['Id']
        }
        address = (hung.get('IPAMConfig') or {}).get('IPv4Address')
        if address is None:
            free = (str(one) for one in list(subnet.hosts())[1:] if str(one) not in taken)
            address = next(free)
        elif not network['Chosen']:
            raise Refused(
                400,
                'user specified IP address is supported only when connecting to networks with '
                'user configured subnets',
            )
        elif ipaddress.ip_address(address) not in subnet:
            raise Refused(
                403,
                f"Invalid address {address}: It does not belong to any of this network's subnets",
            )
        elif address in taken:
            raise Refused(403, 'Address already in use')
        return {
            'IPAddress': address,
            'EndpointID': secrets.token_hex(32),
            'MacAddress': '02:42:' + ':'.join(f'{int(part):02x}' for part in address.split('.')),
        }


def _hung(network_id, config):
    wanted = copy.deepcopy(config) or {}
    return {
        'IPAMConfig': wanted.get('IPAMConfig'), 'Aliases': wanted.get('Aliases'),
        'NetworkID': network_id, 'EndpointID': '', 'MacAddress': '', 'IPAddress': '',
        'GlobalIPv6Address': '',
    }  # fmt: skip


def _ids(container):
    networks = container['NetworkSettings']['Networks']
    return {hung['NetworkID'] for hung in networks.values()}
