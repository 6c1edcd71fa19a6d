"""Nova's fake hypervisor, with behaviour that a test sets from the client's side.

Metadata of a server, all optional:

  devcloud:spawn_delay    seconds that spawn takes longer         (server in BUILD)
  devcloud:spawn_fail     text: spawn raises it                   (rescheduled, then ERROR)
  devcloud:spawn_abort    text: the build is given up             (ERROR, not rescheduled)
  devcloud:destroy_delay  seconds that destroy takes longer
  devcloud:destroy_fail   text: destroy raises it                 (ERROR on delete)
  devcloud:console        content of the console log
"""

import io
import os
import threading
import time

from nova import context as nova_context
from nova import exception, objects
from nova.conf import CONF
from nova.image import glance
from nova.virt import fake, node

GONE = ('building', 'error', 'deleted')


def knob(instance, name):
    """Return the value in the server's metadata, or None."""
    return (instance.metadata or {}).get(f'devcloud:{name}')


def delay(instance, name):
    """Sleep for the time in the server's metadata."""
    time.sleep(float(knob(instance, name) or 0))


class KilnFakeDriver(fake.FakeDriver):
    """A host of 100000 CPUs that remembers its guests."""

    vcpus = 100000
    memory_mb = 100000000
    local_gb = 10000000
    capabilities = fake.FakeDriver.capabilities | {
        'supports_migrate_to_same_host': True,
        'supports_image_type_qcow2': True,
    }

    def __init__(self, *args, **kwargs):
        self._guests = {}
        self._loaded = None
        self._loading = threading.RLock()
        super().__init__(*args, **kwargs)

    # FakeDriver forgets its guests at a restart and knows nothing of a reset of
    # the database; both times the database tells which guests this host has.

    @property
    def instances(self):
        """The guests of this host."""
        stamp = self._stamp()
        with self._loading:
            if self._host and stamp != self._loaded:
                self._loaded = stamp
                self._load()
        return self._guests

    @instances.setter
    def instances(self, guests):
        self._guests = guests

    @staticmethod
    def _stamp():
        try:
            return os.stat(os.path.join(CONF.state_path, '..', '..', 'reset')).st_mtime_ns
        except FileNotFoundError:
            return 0

    def _load(self):
        guests = {}
        for instance in objects.InstanceList.get_by_host(
            nova_context.get_admin_context(), self._host, expected_attrs=['info_cache']
        ):
            if instance.vm_state in GONE:
                continue
            guests[instance.uuid] = fake.FakeInstance(
                instance.name, instance.power_state, instance.uuid
            )
            for vif in instance.get_network_info():
                self._interfaces[vif['id']] = vif
        self._guests = guests

    # FakeDriver draws new node ids at every start, and Nova then refuses the
    # second start of the host; the state path keeps one.

    def get_nodenames_by_uuid(self, refresh=False):
        """Return this host's one node by the id that the state path keeps."""
        return {node.get_local_node_uuid(): self.get_available_nodes()[0]}

    def get_available_resource(self, nodename):
        """Return the resources of the node by the id that the state path keeps."""
        resources = super().get_available_resource(nodename)
        if resources:
            resources['uuid'] = node.get_local_node_uuid()
        return resources

    def spawn(self, context, instance, *args, **kwargs):
        """Make a guest, or fail as its metadata requests."""
        delay(instance, 'spawn_delay')
        if reason := knob(instance, 'spawn_abort'):
            raise exception.BuildAbortException(instance_uuid=instance.uuid, reason=reason)
        if reason := knob(instance, 'spawn_fail'):
            raise exception.NovaException(reason)
        return super().spawn(context, instance, *args, **kwargs)

    def destroy(self, context, instance, network_info, *args, **kwargs):
        """Remove a guest, or fail as its metadata requests."""
        delay(instance, 'destroy_delay')
        if reason := knob(instance, 'destroy_fail'):
            raise exception.NovaException(reason)
        super().destroy(context, instance, network_info, *args, **kwargs)
        # Nova's own fake never releases a port, and refuses it elsewhere.
        for vif in network_info or ():
            self._interfaces.pop(vif['id'], None)

    def get_console_output(self, context, instance):
        """Return the console log of the guest, or the one in its metadata."""
        text = knob(instance, 'console')
        return super().get_console_output(context, instance) if text is None else text

    def snapshot(self, context, instance, image_id, update_task_state):
        """Upload a few real bytes, so that the image becomes active."""
        super().snapshot(context, instance, image_id, update_task_state)
        images = glance.API()
        metadata = {
            'disk_format': 'raw',
            'container_format': 'bare',
            'name': images.get(context, image_id)['name'],
            'properties': {},
        }
        images.update(context, image_id, metadata, io.BytesIO(b'kiln-snapshot'))
