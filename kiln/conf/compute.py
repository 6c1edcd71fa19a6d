"""Options of a backend and of the stack of wrappers around its driver."""

from __future__ import annotations

from oslo_config import cfg

#: The group of options of the whole site, and the prefix of each backend's.
GROUP = 'compute'

SITE_OPTS = [
    cfg.StrOpt(
        'default_backend',
        default='noop',
        help='Backend to use where none is named: the NAME of a [compute:NAME] group, '
        'or the name of an installed driver, which then has its defaults.',
    ),
    cfg.StrOpt(
        'owner',
        default='kiln',
        regex=r'^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$',
        help='Tag put on all that this site makes. Give each site that shares a backend '
        'its own: kiln lists, watches and cleans up only what carries it.',
    ),
    cfg.BoolOpt(
        'metrics',
        default=False,
        help='Count calls, errors, queues and circuits with prometheus_client.',
    ),
    cfg.BoolOpt(
        'tracing',
        default=False,
        help='Make an OpenTelemetry span for each call to a backend.',
    ),
]

BACKEND_OPTS = [
    cfg.StrOpt(
        'driver',
        help='Name of the compute driver; the name of the backend where it is not given.',
    ),
    cfg.FloatOpt(
        'call_timeout',
        default=60.0,
        min=0.1,
        help='Seconds that one operation may take, its queue and its retries included, '
        'until the backend has agreed.',
    ),
    cfg.FloatOpt(
        'build_timeout',
        default=600.0,
        min=1.0,
        help='Seconds that a build may take until the instance is active, or ready. Past '
        'this the build fails and the instance is deleted.',
    ),
    cfg.FloatOpt(
        'cleanup_timeout',
        default=600.0,
        min=1.0,
        help='Seconds for which kiln tries to remove what a failed build left. Past this '
        'it logs an error with the id; the orphan sweep can find it later.',
    ),
    cfg.IntOpt(
        'max_workers',
        default=16,
        min=3,
        max=512,
        help='Threads that may call the backend at a time. One is always kept for each '
        'of reading, building and changing, so that no kind keeps another from its turn.',
    ),
    cfg.IntOpt(
        'read_workers',
        min=1,
        max=512,
        help='Threads of max_workers that may read at a time. Unset: all of them.',
    ),
    cfg.IntOpt(
        'build_workers',
        min=1,
        max=512,
        help='Threads of max_workers that may build at a time. Lower it where many '
        'builds at once overload the backend; the others wait. Unset: half of them.',
    ),
    cfg.IntOpt(
        'change_workers',
        min=1,
        max=512,
        help='Threads of max_workers that may change or delete at a time. Unset: three '
        'quarters of them.',
    ),
    cfg.IntOpt(
        'max_queue',
        default=10_000,
        min=1,
        help='Operations that may wait for a thread. One more is rejected at once.',
    ),
    cfg.IntOpt(
        'callback_threads',
        default=8,
        min=1,
        max=512,
        help='Threads that may call what callers add to operations, their callbacks, at a '
        'time. Raise it where callbacks block: once all are held up, other callbacks wait.',
    ),
    cfg.IntOpt(
        'probe_threads',
        default=64,
        min=1,
        max=512,
        help='Threads that may ask the probes of builds at a time. Raise it where more '
        'builds than that wait for slow probes at once; the other probes wait.',
    ),
    cfg.FloatOpt(
        'circuit_failure_rate',
        default=0.5,
        min=0.01,
        max=1.0,
        help='Part of the calls within the window that must fail to open the circuit.',
    ),
    cfg.IntOpt(
        'circuit_minimum_calls',
        default=5,
        min=1,
        help='Calls within the window below which the circuit never opens.',
    ),
    cfg.FloatOpt(
        'circuit_window',
        default=60.0,
        min=1.0,
        help='Seconds for which calls are remembered.',
    ),
    cfg.FloatOpt(
        'circuit_slow_call',
        min=0.001,
        help='Seconds from which an answer counts as slow. Unset: no answer does.',
    ),
    cfg.FloatOpt(
        'circuit_slow_rate',
        default=1.0,
        min=0.01,
        max=1.0,
        help='Part of the calls within the window that must be slow to open the circuit.',
    ),
    cfg.FloatOpt(
        'circuit_open',
        default=30.0,
        min=0.1,
        help='Seconds the circuit stays open at first; each failed probe doubles them.',
    ),
    cfg.FloatOpt(
        'circuit_open_max',
        default=600.0,
        min=0.1,
        help='Seconds the circuit stays open at most.',
    ),
    cfg.StrOpt(
        'circuit_redis_url',
        secret=True,
        help='Redis through which several processes share the circuits of this backend, '
        'such as redis://127.0.0.1:6379/0. Unset: each process has its own.',
    ),
    cfg.FloatOpt(
        'rate',
        min=0.001,
        help='Calls per second to the backend at most. Unset: no limit of our own; one '
        'that the backend sets is still kept.',
    ),
    cfg.IntOpt(
        'rate_burst',
        default=10,
        min=1,
        help='Calls that may leave at once after a quiet time, where a rate is set.',
    ),
    cfg.FloatOpt(
        'watch_interval',
        default=1.0,
        min=0.05,
        help='Seconds between two looks at the backend while something changes there. '
        'One look serves all who wait.',
    ),
    cfg.FloatOpt(
        'watch_max_interval',
        default=30.0,
        min=0.05,
        help='Seconds between two looks while nothing changes.',
    ),
]
