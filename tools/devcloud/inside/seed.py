"""Seed of the cloud: users and catalogue first, then the resources of users.

usage: seed.py TASK ...

  identity             roles, projects and users of the people
  service NAME TYPE URL  a service's user and its place in the catalogue
  contents             image, flavors, networks, key pair, quota
  zone NUMBER          the availability zone azN with the host cmpN
  octavia FILE         what a load balancer is built from; its ids go to a file

Each task is one argument. Each can be repeated: existing objects stay.
"""

import io
import json
import pathlib
import sys

import openstack

PASSWORD = 'kiln'
REGION = 'RegionOne'
FLAVORS = (
    # name, MB, CPUs, GB
    ('tiny', 64, 1, 1),
    ('small', 2048, 1, 20),
    ('medium', 4096, 2, 40),
    ('large', 8192, 4, 80),
    ('impossible', 999999999, 100, 1),
)
PUBLIC_KEY = (
    'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFVvqzOLHdzr8ZRKjkUb8Wp7Rk7m6FQe1nR3a2k1yN0x kiln'
)
cloud = openstack.connect(cloud='kiln')


def role(name):
    """Return a role."""
    return cloud.identity.find_role(name) or cloud.identity.create_role(name=name)


def project(name):
    """Return a project."""
    return cloud.identity.find_project(name) or cloud.identity.create_project(
        name=name, domain_id='default'
    )


def grant(user_name, project_name, *roles):
    """Give a user, made if need be, roles in a project."""
    user = cloud.identity.find_user(user_name) or cloud.identity.create_user(
        name=user_name, password=PASSWORD, domain_id='default'
    )
    for name in roles:
        cloud.identity.assign_project_role_to_user(project(project_name), user, role(name))


def identity():
    """Make the people."""
    role('reader')
    grant('admin', 'admin', 'admin', 'member')
    grant('admin', 'demo', 'admin')
    grant('demo', 'demo', 'member')
    grant('small', 'small', 'member')


def service(name, kind, url):
    """Make a service's user and its catalogue entry."""
    grant(name, 'service', 'admin', 'service')
    if not list(cloud.identity.services(type=kind)):
        entry = cloud.identity.create_service(name=name, type=kind)
        for interface in ('public', 'internal', 'admin'):
            cloud.identity.create_endpoint(
                service_id=entry.id, interface=interface, url=url, region_id=REGION
            )
    if name == 'heat':
        heat_domain()
    if name == 'octavia':
        octavia_roles()


def heat_domain():
    """Make the domain in which Heat keeps the users of its stacks."""
    role('heat_stack_user')
    for name in ('admin', 'demo'):
        grant('admin', name, 'heat_stack_owner')
        grant('demo', name, 'heat_stack_owner')
    domain = cloud.identity.find_domain('heat') or cloud.identity.create_domain(name='heat')
    name = 'heat_domain_admin'
    user = cloud.identity.find_user(name, domain_id=domain.id) or cloud.identity.create_user(
        name=name, password=PASSWORD, domain_id=domain.id
    )
    cloud.identity.assign_domain_role_to_user(domain, user, role('admin'))


def octavia_roles():
    """Give the users the roles that Octavia's own policy requires."""
    for name in ('observer', 'global_observer', 'quota_admin'):
        role(f'load-balancer_{name}')
    grant('admin', 'admin', 'load-balancer_admin', 'load-balancer_member')
    grant('demo', 'demo', 'load-balancer_member')


def contents():
    """Make the resources that users of the cloud build from."""
    for name, memory, cpus, disk in FLAVORS:
        if not cloud.compute.find_flavor(name):
            cloud.compute.create_flavor(name=name, ram=memory, vcpus=cpus, disk=disk)
    if not cloud.image.find_image('tiny'):
        cloud.image.create_image(
            name='tiny',
            disk_format='raw',
            container_format='bare',
            visibility='public',
            data=io.BytesIO(bytes(1024)),
            wait=True,
            timeout=60,
        )
    if not cloud.network.find_network('net1'):
        shared = cloud.network.create_network(name='net1', shared=True)
        subnet(shared, 'sub1', '10.64.0.0/16', gateway_ip='10.64.0.1')
    if not cloud.network.find_network('ext'):
        external = cloud.network.create_network(
            name='ext',
            is_router_external=True,
            provider_network_type='flat',
            provider_physical_network='physnet1',
        )
        subnet(external, 'extsub', '198.18.0.0/16')
    if not cloud.compute.find_keypair('key1'):
        cloud.compute.create_keypair(name='key1', public_key=PUBLIC_KEY)
    cloud.compute.update_quota_set(project('small').id, instances=2, cores=4)


def subnet(network, name, cidr, **more):
    """Make a network's only subnet."""
    cloud.network.create_subnet(
        network_id=network.id, name=name, cidr=cidr, ip_version=4, enable_dhcp=False, **more
    )


def zone(number):
    """Make an availability zone of one host."""
    name = f'az{number}'
    if not cloud.compute.find_aggregate(name):
        aggregate = cloud.compute.create_aggregate(name=name, availability_zone=name)
        cloud.compute.add_host_to_aggregate(aggregate, f'cmp{number}')


def octavia(path):
    """Make the management network, its security group, and the tag on the image."""
    owner = project('service').id
    network = cloud.network.find_network('lb-mgmt')
    if not network:
        network = cloud.network.create_network(name='lb-mgmt', project_id=owner)
        subnet(network, 'lb-mgmt-sub', '10.65.0.0/16', gateway_ip=None)
    group = cloud.network.find_security_group(
        'lb-mgmt-sg', project_id=owner
    ) or cloud.network.create_security_group(name='lb-mgmt-sg', project_id=owner)
    image = cloud.image.find_image('tiny')
    if 'amphora' not in image.tags:
        cloud.image.add_tag(image, 'amphora')
    ids = {
        'flavor': cloud.compute.find_flavor('tiny').id,
        'network': network.id,
        'security_group': group.id,
    }
    pathlib.Path(path).write_text(json.dumps(ids))


TASKS = {task.__name__: task for task in (identity, service, contents, zone, octavia)}

for argument in sys.argv[1:]:
    task, *words = argument.split()
    TASKS[task](*words)
