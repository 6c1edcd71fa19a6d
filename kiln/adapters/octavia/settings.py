"""Defaults of kiln's drivers from the options in octavia.conf.

These are only defaults: an option that is set in the backend's own group
takes precedence.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

#: Options of keystoneauth's sessions: TLS and the timeout of each request.
SESSION = ('cafile', 'certfile', 'keyfile', 'insecure', 'timeout')

VOLUME_BACKED = 'volume_cinder_driver'


def declare_auth(conf: Any) -> list[str]:
    """Register the options of the auth plugin in use; return their names.

    Octavia registers them too, but only when it first authenticates.
    """
    from keystoneauth1 import loading

    section = _auth_section(conf)
    loading.register_auth_conf_options(conf, section)
    auth_type = conf[section].auth_type
    opts = loading.get_auth_plugin_conf_options(auth_type) if auth_type else []
    conf.register_opts(opts, section)
    return ['auth_type', *(opt.dest for opt in opts)]


def nova_defaults(conf: Any, auth: Collection[str]) -> dict[str, Any]:
    """Return options of the Nova driver from the options of Octavia's own driver.

    ``auth`` are the names of the options with Octavia's credentials.
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
    """Return the names of options that are set, but have no counterpart in the driver."""
    names = []
    if conf.nova.service_name:
        names.append('[nova] service_name')
    if conf.controller_worker.volume_driver == VOLUME_BACKED and conf.cinder.availability_zone:
        names.append('[cinder] availability_zone')
    return names


def noop_defaults() -> dict[str, Any]:
    """Return options of a simulated cloud that accepts any flavor and zone.

    Octavia's own no-op driver does the same: Octavia's API is tested with flavors
    and zones of a real cloud.
    """
    return {'zones': None, 'flavors': None}


def _auth_section(conf: Any) -> str:
    # keystoneauth lets one group refer to another for its credentials.
    section: str | None = conf.service_auth.auth_section
    return section or 'service_auth'


def _present(group: Any, names: Collection[str]) -> dict[str, Any]:
    return _given(**{name: getattr(group, name) for name in names})


def _given(**values: Any) -> dict[str, Any]:
    """Return the values that are set; Octavia also has '' and False for "not set"."""
    return {name: value for name, value in values.items() if value}
