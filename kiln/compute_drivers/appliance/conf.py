"""Options of an appliance backend."""

from __future__ import annotations

from oslo_config import cfg

opts = [
    cfg.StrOpt(
        'inventory',
        help='TOML file that enrols the machines. It is read again when it changes.',
    ),
    cfg.StrOpt(
        'state_dir',
        help='Directory in which claims are kept, on a local disk of this host. All processes '
        'that claim from one pool must share it; it is created if it does not exist.',
    ),
    cfg.StrOpt(
        'secrets_dir',
        help='Directory with a file for each secret that the inventory names, readable by '
        'kiln alone. A command gets the path of the secret of its machine.',
    ),
    cfg.FloatOpt(
        'claim_timeout',
        default=600.0,
        min=0.1,
        help='Seconds that a claim or rebuild command can take. After that it is killed, and '
        'the build has failed.',
    ),
    cfg.FloatOpt(
        'wipe_timeout',
        default=3600.0,
        min=0.1,
        help='Seconds that a wipe command can take. After that it is killed, and retried later.',
    ),
    cfg.FloatOpt(
        'command_timeout',
        default=60.0,
        min=0.1,
        help='Seconds that a reboot command can take.',
    ),
    cfg.FloatOpt(
        'console_timeout',
        default=10.0,
        min=0.1,
        help='Seconds that a console command can take; its caller waits for it.',
    ),
    cfg.FloatOpt(
        'ready_timeout',
        default=600.0,
        min=0.1,
        help='Seconds after the end of a claim, reboot or rebuild command within which the '
        'probe must pass. After that the machine is in error.',
    ),
    cfg.FloatOpt(
        'probe_interval',
        default=10.0,
        min=0.01,
        help='Seconds between two probes of a machine in use.',
    ),
    cfg.FloatOpt(
        'probe_start_interval',
        default=1.0,
        min=0.01,
        help='Seconds between two probes of a machine that is starting.',
    ),
    cfg.FloatOpt(
        'probe_timeout', default=5.0, min=0.01, help='Seconds that a probe can take in all.'
    ),
    cfg.IntOpt(
        'probe_failures',
        default=3,
        min=1,
        help='Probes in a row that must fail before a machine in use is in error.',
    ),
    cfg.IntOpt(
        'probe_successes',
        default=2,
        min=1,
        help='Probes in a row that must pass before the machine is active again.',
    ),
    cfg.FloatOpt(
        'quarantine',
        default=60.0,
        min=0.01,
        help='Seconds for which a machine is left alone after its wipe or claim has failed; '
        'each further failure doubles them.',
    ),
    cfg.FloatOpt(
        'quarantine_max', default=3600.0, min=0.01, help='Maximum seconds of a quarantine.'
    ),
    cfg.IntOpt(
        'command_workers', default=8, min=1, max=256, help='Maximum of concurrent commands.'
    ),
    cfg.IntOpt('probe_workers', default=8, min=1, max=256, help='Maximum of concurrent probes.'),
]
