"""Options of a Docker backend."""

from __future__ import annotations

from oslo_config import cfg

_DEFAULT = 'Used where a build names none.'
_ROOT = 'Whoever can say this has the rights of root on the host of the engine.'

_TALK = [
    cfg.StrOpt(
        'url',
        default='unix:///var/run/docker.sock',
        regex=r'^(unix|tcp|https?|ssh)://.+$',
        help='Where the engine listens: unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST, '
        'with a port and the path of a socket if they are not the usual ones. '
        'That of Podman is usually unix:///run/podman/podman.sock.',
    ),
    cfg.StrOpt(
        'tls_ca',
        help="File with the certificate that the engine's own is checked by. With it, or "
        'with tls_cert, tcp:// is spoken over TLS.',
    ),
    cfg.StrOpt('tls_cert', help='File with the certificate that kiln shows to the engine.'),
    cfg.StrOpt('tls_key', help='File with the key of tls_cert.'),
    cfg.StrOpt(
        'ssh_config',
        help='File with options of ssh, such as keys and known hosts, for ssh://. Unset: those of '
        'the user that kiln runs as.',
    ),
    cfg.FloatOpt(
        'timeout',
        default=60.0,
        min=0.1,
        help='Seconds to wait for an answer. Past this the request has failed, and kiln '
        'looks whether it took effect.',
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
            ('never', 'a build whose image the engine lacks is refused'),
            ('missing', 'it is fetched from its registry, within the time of the build'),
            ('always', 'it is fetched before each build, if the registry has a newer one'),
        ],
        help='When images are fetched from their registries.',
    ),
    cfg.StrOpt('flavor', help=f'Name of one of the flavors. {_DEFAULT} Unset: no limits.'),
    cfg.StrOpt(
        'flavors',
        default='',
        help='Flavors there are, between semicolons: how many processors, how much memory '
        'and how many processes a container may have at most. What is left out is not '
        'limited.',
        sample_default='small: 1 cpu, 512 MiB; large: 4 cpus, 4 GiB, 4096 pids',
    ),
    cfg.ListOpt(
        'networks',
        default=[],
        help='Names or ids of networks, each with a fixed address if one follows: '
        f'NAME=ADDRESS. {_DEFAULT} Unset: the default network of the engine.',
    ),
    cfg.ListOpt(
        'zones',
        default=[],
        help='Availability zones that the engine stands for; builds that name none are in '
        'the first. Unset: one, called as the backend.',
    ),
    cfg.StrOpt(
        'seed',
        default='auto',
        choices=[
            ('auto', 'as the image says by its label kiln.seed; files where it says nothing'),
            ('nocloud', 'as a seed of cloud-init, which writes files and keys'),
            ('files', 'files as they are; user data in /var/lib/kiln/user-data'),
            ('none', 'builds with either are refused'),
        ],
        help='How files and user data come into a container, before it starts.',
    ),
]

_SHAPE = [
    cfg.ListOpt(
        'publish',
        default=[],
        help='Ports of each container to publish on the host: PORT, HOST_PORT:PORT or '
        'ADDRESS:HOST_PORT:PORT. With one port for all, no more than one container can run.',
        sample_default='22,127.0.0.1::9443/tcp',
    ),
    cfg.ListOpt(
        'volumes',
        default=[],
        help='Paths at which each container has a volume of its own, which goes with it; '
        'beside those its image asks for by the label kiln.volumes.',
    ),
    cfg.ListOpt(
        'tmpfs',
        default=[],
        help='Paths at which each container has a file system in memory, with options if '
        'they follow: PATH:size=64m.',
    ),
    cfg.ListOpt('dns', default=[], help='Addresses of name servers. Unset: those of the host.'),
    cfg.StrOpt(
        'restart',
        default='unless-stopped',
        help='When the engine itself starts a container again that has ended, or that ran when '
        'the engine ended: no, always, unless-stopped (or killed on purpose) or '
        'on-failure:TIMES.',
    ),
    cfg.BoolOpt(
        'init',
        default=False,
        help='Have a small init in each container, which buries what its command leaves.',
    ),
    cfg.BoolOpt('tty', default=False, help='Give the command of each container a terminal.'),
    cfg.StrOpt(
        'stop_signal',
        help='Signal by which a container is asked to end. Unset: that of its image.',
    ),
    cfg.IntOpt(
        'stop_timeout',
        default=10,
        min=0,
        help='Seconds that a container has to end, when it is rebooted softly, until it is '
        'killed.',
    ),
    cfg.StrOpt('shm_size', help='Size of /dev/shm, such as 64 MiB. Unset: the default.'),
    cfg.StrOpt('cgroup_parent', help='Control group to put containers under.'),
]

_RIGHTS = [
    cfg.BoolOpt(
        'privileged',
        default=False,
        help=f'Give containers all rights. {_ROOT} Node images that boot systemd need it.',
    ),
    cfg.ListOpt(
        'devices', default=[], help=f'Devices of the host: PATH, or PATH:INSIDE:rwm. {_ROOT}'
    ),
    cfg.ListOpt(
        'mounts', default=[], help=f'Folders of the host: PATH:INSIDE, or PATH:INSIDE:ro. {_ROOT}'
    ),
]

opts = [*_TALK, *_BUILDS, *_SHAPE, *_RIGHTS]
