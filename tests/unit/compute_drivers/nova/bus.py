"""A message bus in this process, on which tests send Nova's notifications."""

import copy
import json
import time
import uuid

import kombu
from kombu.transport import memory

from tests.unit.compute_drivers.nova.corpus import NOTIFICATIONS

#: One bus for the whole process: exchanges keep the messages apart.
URL = 'kombu+memory://'
TOPIC = 'versioned_notifications'

# By default it looks for messages only once a second.
memory.Transport.polling_interval = 0.005


def envelope(message):
    """Return a notification in the format of oslo.messaging."""
    return json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(message)})


def notification(event, server_id=None, **changes):
    """Return the first recorded notification of a kind of event, with changes to its payload."""
    (message, *_) = (one for one in NOTIFICATIONS if one['event_type'] == event)
    message = copy.deepcopy(message)
    told = message['payload']['nova_object.data']
    told.update(changes)
    if server_id is not None:
        told['uuid' if 'uuid' in told else 'instance_uuid'] = server_id
    return message


class Exchange:
    """The exchange that Nova would declare."""

    def __init__(self):
        self.name = f'nova-{uuid.uuid4().hex[:8]}'
        self._connection = kombu.Connection('memory://')
        self._producer = self._connection.Producer(
            exchange=kombu.Exchange(self.name, 'topic', durable=False)
        )
        self._producer.declare()

    def say(self, body, priority='info'):
        how = {'content_type': 'application/json', 'content_encoding': 'utf-8'}
        self._producer.publish(body, routing_key=f'{TOPIC}.{priority}', **how)

    def tell(self, event, server_id=None, **changes):
        self.say(envelope(notification(event, server_id, **changes)))

    def close(self):
        self._connection.release()


def until(true, seconds=120.0):
    """Wait, on the real clock, for an effect of a thread of the client library."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError('it did not come about')
        time.sleep(0.005)
