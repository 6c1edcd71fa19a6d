"""The services of the cloud, each in a module of its own."""

from .base import Service
from .glance import Glance
from .heat import Heat
from .ironic import Ironic
from .keystone import Keystone
from .neutron import Neutron
from .nova import Nova
from .octavia import Octavia
from .placement import Placement

CORE: tuple[type[Service], ...] = (Keystone, Placement, Glance, Neutron, Nova)
OPTIONAL: tuple[type[Service], ...] = (Heat, Ironic, Octavia)

__all__ = ['CORE', 'OPTIONAL', 'Service']
