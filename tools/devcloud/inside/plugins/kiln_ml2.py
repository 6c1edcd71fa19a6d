"""An ML2 mechanism driver without agents: every port is bound and ACTIVE at once.

A port whose name starts with "nobind" gets a failed binding, to test that too.
"""

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class KilnMechanismDriver(api.MechanismDriver):
    """Binds to the first segment."""

    def initialize(self):
        """Do nothing: this mechanism has no agent."""

    @property
    def connectivity(self):
        """The connectivity of a bound port."""
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        """Bind a port, unless its name starts with "nobind"."""
        if context.current['name'].startswith('nobind'):
            return
        segment = next(iter(context.segments_to_bind), None)
        if segment:
            context.set_binding(
                segment[api.ID],
                portbindings.VIF_TYPE_OVS,
                {portbindings.CAP_PORT_FILTER: True},
                status=constants.PORT_STATUS_ACTIVE,
            )

    def filter_hosts_with_segment_access(self, context, segments, candidate_hosts, agent_getter):
        """Return all hosts: each reaches each segment."""
        return set(candidate_hosts)
