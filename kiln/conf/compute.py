"""Options of backends and of the wrappers around their drivers."""

from __future__ import annotations

from oslo_config import cfg

#: The option group of the site, and the prefix of the groups of backends.
GROUP = 'compute'

SITE_OPTS = [
    cfg.StrOpt(
        'default_backend',
        default='noop',
        help='Default backend: the NAME of a [compute:NAME] group, or the name of an installed '
        'driver, which then has its defaults.',
    ),
    cfg.StrOpt(
        'owner',
        default='kiln',
        regex=r'^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$',
        help='Tag on all resources of this site. Sites that share a backend need different '
        'owners: kiln lists, watches and cleans up only resources with its own tag.',
    ),
    cfg.BoolOpt(
        'metrics',
        default=False,
        help='Count calls, errors, queues and circuits with prometheus_client.',
    ),
    cfg.BoolOpt(
        'tracing',
        default=False,
        help='Create an OpenTelemetry span for each call to a backend, for the tracer provider '
        'that the program has set up; see tracing_endpoint for programs that set up none.',
    ),
    cfg.StrOpt(
        'tracing_endpoint',
        help='URL of an OpenTelemetry collector, such as http://127.0.0.1:4318/v1/traces, to '
        'which kiln itself exports its spans: OTLP over HTTP. It switches tracing on, and needs '
        'kiln-compute[tracing]. Without a collector there, spans are lost, and a command can '
        'end some seconds later. Unset: kiln exports nothing.',
    ),
    cfg.StrOpt(
        'tracing_service',
        default='kiln',
        help='Name of this service in the spans that go to tracing_endpoint.',
    ),
]

BACKEND_OPTS = [
    cfg.StrOpt(
        'driver',
        help='Name of the compute driver. Unset: the name of the backend.',
    ),
    cfg.FloatOpt(
        'call_timeout',
        default=60.0,
        min=0.1,
        help='Time limit of one operation until the backend accepts it, in seconds, including '
        'queue and retries.',
    ),
    cfg.FloatOpt(
        'build_timeout',
        default=600.0,
        min=1.0,
        help='Time limit of a build until the instance is active, or ready, in seconds. Then '
        'the build fails and the instance is deleted.',
    ),
    cfg.FloatOpt(
        'cleanup_timeout',
        default=600.0,
        min=1.0,
        help='Seconds for which kiln tries to remove the resources of a failed build. Then it '
        'logs an error with the id; the orphan sweep can find the resource later.',
    ),
    cfg.IntOpt(
        'max_workers',
        default=16,
        min=3,
        max=512,
        help='Maximum number of threads that call the backend at once. One thread each is '
        'reserved for reading, building and changing, so that no kind blocks another.',
    ),
    cfg.IntOpt(
        'read_workers',
        min=1,
        max=512,
        help='Maximum number of threads of max_workers that read at once. Unset: all of them.',
    ),
    cfg.IntOpt(
        'build_workers',
        min=1,
        max=512,
        help='Maximum number of threads of max_workers that build at once; other builds wait. '
        'Lower it if many builds at once overload the backend. Unset: half of them.',
    ),
    cfg.IntOpt(
        'change_workers',
        min=1,
        max=512,
        help='Maximum number of threads of max_workers that change or delete at once. Unset: '
        'three quarters of them.',
    ),
    cfg.IntOpt(
        'max_queue',
        default=10_000,
        min=1,
        help='Maximum number of operations that wait for a thread; others are rejected at once.',
    ),
    cfg.IntOpt(
        'callback_threads',
        default=8,
        min=1,
        max=512,
        help='Maximum number of threads that run callbacks of operations. Raise it if callbacks '
        'block: when all threads are blocked, other callbacks wait.',
    ),
    cfg.IntOpt(
        'probe_threads',
        default=64,
        min=1,
        max=512,
        help='Maximum number of threads that run the probes of builds; other probes wait. Raise '
        'it if more builds than that wait for slow probes at once.',
    ),
    cfg.FloatOpt(
        'circuit_failure_rate',
        default=0.5,
        min=0.01,
        max=1.0,
        help='Fraction of the calls in the window that must fail to open the circuit.',
    ),
    cfg.IntOpt(
        'circuit_minimum_calls',
        default=5,
        min=1,
        help='Minimum number of calls in the window before the circuit can open.',
    ),
    cfg.FloatOpt(
        'circuit_window',
        default=60.0,
        min=1.0,
        help='Length of the window in which calls are counted, in seconds.',
    ),
    cfg.FloatOpt(
        'circuit_slow_call',
        min=0.001,
        help='Duration from which a call counts as slow, in seconds. Unset: no call is slow.',
    ),
    cfg.FloatOpt(
        'circuit_slow_rate',
        default=1.0,
        min=0.01,
        max=1.0,
        help='Fraction of the calls in the window that must be slow to open the circuit.',
    ),
    cfg.FloatOpt(
        'circuit_open',
        default=5.0,
        min=0.1,
        help='Seconds for which the circuit stays open; doubled by each failed probe.',
    ),
    cfg.FloatOpt(
        'circuit_open_max',
        default=30.0,
        min=0.1,
        help='Maximum number of seconds for which the circuit stays open.',
    ),
    cfg.StrOpt(
        'circuit_redis_url',
        secret=True,
        help='Redis with which several processes share the circuits of this backend, '
        'such as redis://127.0.0.1:6379/0. Unset: each process has its own.',
    ),
    cfg.FloatOpt(
        'rate',
        min=0.001,
        help='Maximum rate of calls to the backend, per second. Unset: only the limits that the '
        'backend reports are kept.',
    ),
    cfg.IntOpt(
        'rate_burst',
        default=10,
        min=1,
        help='Maximum number of calls sent at once after an idle period, if rate is set.',
    ),
    cfg.FloatOpt(
        'watch_interval',
        default=1.0,
        min=0.05,
        help='Seconds between two polls of the backend while instances change. One poll serves '
        'all waiting callers.',
    ),
    cfg.FloatOpt(
        'watch_max_interval',
        default=30.0,
        min=0.05,
        help='Seconds between two polls while nothing changes.',
    ),
]
