"""Options of an appliance backend."""

from __future__ import annotations

from oslo_config import cfg

opts = [
    cfg.StrOpt(
        'inventory',
        help='File that enrols the machines, in TOML. It is read again when it changes.',
    ),
    cfg.StrOpt(
        'state_dir',
        help='Directory in which claims are kept, on a disk of this host. All processes that '
        'claim from one pool must share it; it is made where it is missing.',
    ),
    cfg.StrOpt(
        'secrets_dir',
        help='Directory with a file for each secret that the inventory names, readable by '
        'kiln alone. Commands are given the path of theirs.',
    ),
    cfg.FloatOpt(
        'claim_timeout',
        default=600.0,
        min=0.1,
        help='Seconds that a claim or rebuild command may take. Past this it is killed, and '
        'the build has failed.',
    ),
    cfg.FloatOpt(
        'wipe_timeout',
        default=3600.0,
        min=0.1,
        help='Seconds that a wipe command may take. Past this it is killed, and run again later.',
    ),
    cfg.FloatOpt(
        'command_timeout',
        default=60.0,
        min=0.1,
        help='Seconds that a reboot command may take.',
    ),
    cfg.FloatOpt(
        'console_timeout',
        default=10.0,
        min=0.1,
        help='Seconds that a console command may take; its caller waits for it.',
    ),
    cfg.FloatOpt(
        'ready_timeout',
        default=600.0,
        min=0.1,
        help='Seconds from the end of a claim, reboot or rebuild command until the probe must '
        'pass. Past this the machine is in error.',
    ),
    cfg.FloatOpt(
        'probe_interval',
        default=10.0,
        min=0.01,
        help='Seconds between two probes of a machine that serves.',
    ),
    cfg.FloatOpt(
        'probe_start_interval',
        default=1.0,
        min=0.01,
        help='Seconds between two probes of a machine that is not there yet.',
    ),
    cfg.FloatOpt(
        'probe_timeout', default=5.0, min=0.01, help='Seconds that a probe may take in all.'
    ),
    cfg.IntOpt(
        'probe_failures',
        default=3,
        min=1,
        help='Probes in a row that must fail until a machine that served is in error.',
    ),
    cfg.IntOpt(
        'probe_successes',
        default=2,
        min=1,
        help='Probes in a row that must pass until it is active again.',
    ),
    cfg.FloatOpt(
        'quarantine',
        default=60.0,
        min=0.01,
        help='Seconds for which a machine is left alone whose wipe or claim has failed; each '
        'further failure doubles them.',
    ),
    cfg.FloatOpt(
        'quarantine_max', default=3600.0, min=0.01, help='Seconds of a quarantine at most.'
    ),
    cfg.IntOpt(
        'command_workers', default=8, min=1, max=256, help='Commands that may run at a time.'
    ),
    cfg.IntOpt('probe_workers', default=8, min=1, max=256, help='Probes that may run at a time.'),
]
