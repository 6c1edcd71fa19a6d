"""What octavia.conf says, in the words of kiln's drivers; pure.

Each function takes Octavia's configuration and returns values for options of
the driver. They are defaults: what the group of the backend says itself counts.
"""

from __future__ import annotations

from typing import Any

#: Names that keystoneauth's plugins have for who we are. Octavia has them in
#: [service_auth], kiln's Nova driver in the group of its backend.
AUTH = (
    'auth_type', 'auth_url', 'username', 'user_id', 'user_domain_name', 'user_domain_id',
    'password', 'project_name', 'project_id', 'project_domain_name', 'project_domain_id',
    'default_domain_name', 'default_domain_id', 'system_scope', 'trust_id', 'token',
    'application_credential_id', 'application_credential_name',
    'application_credential_secret',
)  # fmt: skip
#: Of its session: TLS and the patience with each request.
SESSION = ('cafile', 'certfile', 'keyfile', 'insecure', 'timeout')

VOLUME_BACKED = 'volume_cinder_driver'


def nova_defaults(conf: Any) -> dict[str, Any]:
    """Return options of the Nova driver from what Octavia's own driver goes by."""
    nova, worker = conf.nova, conf.controller_worker
    values = _present(conf[_auth_section(conf)], AUTH) | _present(conf.service_auth, SESSION)
    values |= _given(
        region_name=nova.region_name,
        valid_interfaces=[nova.endpoint_type.removesuffix('URL')],
        service_name=nova.service_name,
        endpoint_override=nova.endpoint,
        cafile=nova.ca_certificates_file,
        insecure=nova.insecure,
        image_owner=worker.amp_image_owner_id,
        config_drive=True,
    )
    if worker.volume_driver == VOLUME_BACKED:
        values |= _given(
            boot_from_volume=True,
            volume_size=conf.cinder.volume_size,
            volume_type=conf.cinder.volume_type,
        )
    return values


def noop_defaults(_conf: Any) -> dict[str, Any]:
    """Return options of a simulated cloud that takes whatever it is asked for.

    As Octavia's own no-op driver does: the flavors and zones that its API is
    tested with are those of the cloud beside it.
    """
    return {'zones': None, 'flavors': None}


def declare_auth(conf: Any) -> None:
    """Declare the options of the auth plugin, as Octavia does when it first logs in."""
    from keystoneauth1 import loading

    section = _auth_section(conf)
    loading.register_auth_conf_options(conf, section)
    if (auth_type := conf[section].auth_type) is not None:
        conf.register_opts(loading.get_auth_plugin_conf_options(auth_type), section)


def _auth_section(conf: Any) -> str:
    # keystoneauth lets one group say that another has its credentials.
    section: str | None = getattr(conf.service_auth, 'auth_section', None)
    return section or 'service_auth'


def _present(group: Any, names: tuple[str, ...]) -> dict[str, Any]:
    # Which options there are depends on the plugin.
    return _given(**{name: getattr(group, name, None) for name in names})


def _given(**values: Any) -> dict[str, Any]:
    """Return what is set; Octavia has '' and False for "not set" as well."""
    return {name: value for name, value in values.items() if value}
