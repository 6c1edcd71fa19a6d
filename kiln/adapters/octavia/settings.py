"""What octavia.conf says, in the words of kiln's drivers.

What these return are defaults of options of the driver: what the group of its
backend says itself counts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

#: What keystoneauth's sessions have: TLS, and the patience with each request.
SESSION = ('cafile', 'certfile', 'keyfile', 'insecure', 'timeout')

VOLUME_BACKED = 'volume_cinder_driver'


def declare_auth(conf: Any) -> list[str]:
    """Declare the options of the auth plugin in use; return their names.

    Octavia does so as well, but only when it first logs in.
    """
    from keystoneauth1 import loading

    section = _auth_section(conf)
    loading.register_auth_conf_options(conf, section)
    auth_type = conf[section].auth_type
    opts = loading.get_auth_plugin_conf_options(auth_type) if auth_type else []
    conf.register_opts(opts, section)
    return ['auth_type', *(opt.dest for opt in opts)]


def nova_defaults(conf: Any, auth: Collection[str]) -> dict[str, Any]:
    """Return options of the Nova driver from what Octavia's own driver goes by.

    ``auth`` are the names of the options that say who Octavia is.
    """
    nova, worker = conf.nova, conf.controller_worker
    values = _present(conf[_auth_section(conf)], auth) | _present(conf.service_auth, SESSION)
    values |= _given(
        region_name=nova.region_name,
        valid_interfaces=[nova.endpoint_type.removesuffix('URL')],
        compute_endpoint_override=nova.endpoint,
        image_endpoint_override=conf.glance.endpoint,
        network_endpoint_override=conf.neutron.endpoint_override,
        cafile=nova.ca_certificates_file,
        insecure=nova.insecure,
        image_owner=worker.amp_image_owner_id,
        config_drive=True,
    )
    if worker.volume_driver == VOLUME_BACKED:
        values |= _given(
            boot_volume_size=conf.cinder.volume_size, boot_volume_type=conf.cinder.volume_type
        )
    return values


def unused(conf: Any) -> list[str]:
    """Return the options that are set, and that no option of the driver stands for."""
    names = []
    if conf.nova.service_name:
        names.append('[nova] service_name')
    if conf.controller_worker.volume_driver == VOLUME_BACKED and conf.cinder.availability_zone:
        names.append('[cinder] availability_zone')
    return names


def noop_defaults() -> dict[str, Any]:
    """Return options of a simulated cloud that takes whatever it is asked for.

    As Octavia's own no-op driver does: the flavors and zones that its API is
    tested with are those of the cloud beside it.
    """
    return {'zones': None, 'flavors': None}


def _auth_section(conf: Any) -> str:
    # keystoneauth lets one group say that another has its credentials.
    section: str | None = conf.service_auth.auth_section
    return section or 'service_auth'


def _present(group: Any, names: Collection[str]) -> dict[str, Any]:
    return _given(**{name: getattr(group, name) for name in names})


def _given(**values: Any) -> dict[str, Any]:
    """Return what is set; Octavia has '' and False for "not set" as well."""
    return {name: value for name, value in values.items() if value}
