"""Options of a Docker backend."""

from __future__ import annotations

from oslo_config import cfg

_DEFAULT = 'Used by builds that name none.'
_ROOT = 'Anyone who can set this option has root rights on the host of the engine.'

_TALK = [
    cfg.StrOpt(
        'url',
        default='unix:///var/run/docker.sock',
        regex=r'^(unix|tcp|https?|ssh)://.+$',
        help='Where the engine listens: unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST, '
        'with a port and the path of a socket if they are not the default ones. '
        'Podman usually listens at unix:///run/podman/podman.sock.',
    ),
    cfg.StrOpt(
        'tls_ca',
        help="File with the certificate that the engine's certificate is checked against. "
        'With it, or with tls_cert, tcp:// uses TLS.',
    ),
    cfg.StrOpt('tls_cert', help='File with the certificate that kiln presents to the engine.'),
    cfg.StrOpt('tls_key', help='File with the private key of tls_cert.'),
    cfg.StrOpt(
        'ssh_config',
        help='File with options of ssh, such as keys and known hosts, for ssh://. Unset: the '
        'configuration of the user that kiln runs as.',
    ),
    cfg.FloatOpt(
        'timeout',
        default=60.0,
        min=0.1,
        help='Seconds to wait for an answer. After that the request has failed, and kiln '
        'checks if it took effect.',
    ),
    cfg.FloatOpt(
        'connect_timeout', default=10.0, min=0.1, help='Seconds to wait for a connection.'
    ),
]

_BUILDS = [
    cfg.StrOpt('image', help=f'Name or id of an image. {_DEFAULT}'),
    cfg.StrOpt(
        'pull',
        default='never',
        choices=[
            ('never', 'a build is refused if the engine lacks its image'),
            ('missing', 'a missing image is pulled, within the time of the build'),
            ('always', 'the image is pulled before each build, if the registry has a newer one'),
        ],
        help='When images are pulled from their registries.',
    ),
    cfg.StrOpt('flavor', help=f'Name of one of the flavors. {_DEFAULT} Unset: no limits.'),
    cfg.StrOpt(
        'flavors',
        default='',
        help='The available flavors, separated by semicolons: the maximum of processors, '
        'memory and processes of a container. A limit that is left out is not set.',
        sample_default='small: 1 cpu, 512 MiB; large: 4 cpus, 4 GiB, 4096 pids',
    ),
    cfg.ListOpt(
        'networks',
        default=[],
        help='Names or ids of networks, each optionally with a fixed address: '
        f'NAME=ADDRESS. {_DEFAULT} Unset: the default network of the engine.',
    ),
    cfg.ListOpt(
        'zones',
        default=[],
        help='Availability zones of the engine; builds that name none are in the first. '
        'Unset: one zone, named like the backend.',
    ),
    cfg.StrOpt(
        'seed',
        default='auto',
        choices=[
            ('auto', 'as the image label kiln.seed says; files if the image has no such label'),
            ('nocloud', 'as a seed of cloud-init, which writes files and keys'),
            ('files', 'files as they are; user data in /var/lib/kiln/user-data'),
            ('none', 'builds with files or user data are refused'),
        ],
        help='How files and user data get into a container, before it starts.',
    ),
]

_SHAPE = [
    cfg.ListOpt(
        'publish',
        default=[],
        help='Ports of each container to publish on the host: PORT, HOST_PORT:PORT or '
        'ADDRESS:HOST_PORT:PORT. With a fixed host port, only one container can run.',
        sample_default='22,127.0.0.1::9443/tcp',
    ),
    cfg.ListOpt(
        'volumes',
        default=[],
        help='Paths at which each container has its own volume, which is removed with it; '
        'in addition to those of the image label kiln.volumes.',
    ),
    cfg.ListOpt(
        'tmpfs',
        default=[],
        help='Paths at which each container has an in-memory file system, optionally with '
        'options: PATH:size=64m.',
    ),
    cfg.ListOpt('dns', default=[], help='Addresses of name servers. Unset: those of the host.'),
    cfg.StrOpt(
        'restart',
        default='unless-stopped',
        help='When the engine itself restarts a container that has ended, or that ran when the '
        'engine ended: no, always, unless-stopped (except if stopped on purpose) or '
        'on-failure:TIMES.',
    ),
    cfg.BoolOpt(
        'init',
        default=False,
        help='Run a small init in each container, which reaps orphaned processes.',
    ),
    cfg.BoolOpt('tty', default=False, help='Give the command of each container a terminal.'),
    cfg.StrOpt(
        'stop_signal',
        help='Signal that stops a container. Unset: that of its image.',
    ),
    cfg.IntOpt(
        'stop_timeout',
        default=10,
        min=0,
        help='Seconds that a container has to end in a soft reboot before it is killed.',
    ),
    cfg.StrOpt('shm_size', help='Size of /dev/shm, such as 64 MiB. Unset: the default.'),
    cfg.StrOpt('cgroup_parent', help='Control group to put containers under.'),
]

_RIGHTS = [
    cfg.BoolOpt(
        'privileged',
        default=False,
        help=f'Run containers with all privileges. {_ROOT} Node images that boot systemd need it.',
    ),
    cfg.ListOpt(
        'devices', default=[], help=f'Devices of the host: PATH, or PATH:INSIDE:rwm. {_ROOT}'
    ),
    cfg.ListOpt(
        'mounts', default=[], help=f'Folders of the host: PATH:INSIDE, or PATH:INSIDE:ro. {_ROOT}'
    ),
]

opts = [*_TALK, *_BUILDS, *_SHAPE, *_RIGHTS]
