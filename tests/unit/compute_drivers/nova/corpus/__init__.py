"""Recorded responses of real services, and of proxies in front of them."""

import json
import pathlib

from kiln.openstack.replies import Reply

_HERE = pathlib.Path(__file__).parent
_FILES = ('nova', 'neutron', 'glance', 'keystone', 'proxies', 'unseen')

#: Recorded responses by file and name: 'nova/build_image_unknown'.
ANSWERS = {
    f'{file}/{name}': answer
    for file in _FILES
    for name, answer in json.loads((_HERE / f'{file}.json').read_text()).items()
}
#: Servers as Nova returned them, by what had happened to them.
SERVERS = json.loads((_HERE / 'servers.json').read_text())
#: Notifications in the order in which Nova sent them.
NOTIFICATIONS = json.loads((_HERE / 'notifications.json').read_text())


def reply(name, **changes):
    """Return a recorded response as the driver receives it."""
    answer = ANSWERS[name] | changes
    return Reply(
        service=answer['service'],
        status=answer['status'],
        headers=answer['headers'],
        body=answer.get('body'),
    )
