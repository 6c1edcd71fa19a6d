"""Recorded error answers of Docker Engine 20.10 and Podman 4.3; ids shortened."""

I = 'f' * 64  # noqa: E741

#: By situation: the status, and the engine's message.
DOCKER = {
    'name taken': (
        409,
        f'Conflict. The container name "/p1" is already in use by container "{I}". You have to '
        'remove (or rename) that container to be able to reuse that name.',
    ),
    'image unknown': (404, 'No such image: nosuch:1'),
    'image id unknown': (404, f'No such image: sha256:{"0" * 64}'),
    'registry out of reach': (
        500,
        'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on '
        '192.0.2.53:53: no such host',
    ),
    'network unknown': (404, 'network nonet not found'),
    'too many processors': (
        400,
        'Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available',
    ),
    'too little memory': (400, 'Minimum memory limit allowed is 6MB'),
    'command unknown': (
        400,
        'failed to create shim task: OCI runtime create failed: runc create failed: unable to '
        'start container process: exec: "/nosuch": stat /nosuch: no such file or directory: '
        'unknown',
    ),
    'capability lacking': (
        500,
        'failed to create shim task: OCI runtime create failed: runc create failed: unable to '
        'start container process: unable to apply caps: operation not permitted: unknown',
    ),
    'device unknown': (
        500,
        'error gathering device information while adding custom device "/dev/nosuch": no such '
        'file or directory',
    ),
    'container unknown': (404, 'No such container: nosuch'),
    'name malformed': (
        400,
        'Invalid container name (p/2), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed',
    ),
    'paused again': (409, f'Container {I} is already paused'),
    'started while paused': (409, 'cannot start a paused container, try unpause instead'),
    'resumed while running': (500, f'Container {I} is not paused'),
    'paused while stopped': (409, f'Container {I} is not running'),
    'killed while stopped': (
        409,
        f'Cannot kill container: p1: Container {I} is not running',
    ),
    'port taken': (
        500,
        'driver failed programming external connectivity on endpoint p3 (c8): Bind for '
        '0.0.0.0:18099 failed: port is already allocated',
    ),
    'port taken by another program': (
        500,
        'driver failed programming external connectivity on endpoint p3 (c8): Error starting '
        'userland proxy: listen tcp4 0.0.0.0:80: bind: address already in use',
    ),
    'network attached again': (403, 'endpoint with name p1 already exists in network n1'),
    'network detached again': (500, f'container {I} is not connected to network n1'),
    'address outside': (
        500,
        "Invalid address 1.2.3.4: It does not belong to any of this network's subnets",
    ),
    'address taken': (403, 'Address already in use'),
    'path unknown': (404, 'Could not find the file /nosuch in container p1'),
    'removed while running': (
        409,
        f'You cannot remove a running container {I}. Stop the container before attempting '
        'removal or force remove',
    ),
    'removed twice at once': (409, f'removal of container {I} is already in progress'),
    'disk full': (
        500,
        'failed to register layer: write /usr/lib/x: no space left on device',
    ),
}
PODMAN = {
    'name taken': (
        500,
        f'container create: creating container storage: the container name "p1" is already in '
        f'use by {I}. You have to remove that container to be able to reuse that name: that '
        'name is already in use',
    ),
    'image unknown': (404, 'no such image: docker.io/library/nosuch:1: image not known'),
    'registry out of reach': (
        500,
        'initializing source docker://nosuch/x:1: pinging container registry '
        'registry-1.docker.io: Get "https://registry-1.docker.io/v2/": dial tcp: lookup '
        'registry-1.docker.io on 192.0.2.53:53: no such host',
    ),
    'network unknown': (
        500,
        'container create: unable to find network with name or ID nonet: network not found',
    ),
    'command unknown': (
        500,
        'kiln-runc: runc create failed: unable to start container process: exec: "/nosuch": '
        'stat /nosuch: no such file or directory: OCI runtime attempted to invoke a command '
        'that was not found',
    ),
    'limit too small': (
        500,
        'kiln-runc: time="2026-11-21T19:41:27Z" level=error msg="runc create failed: unable to '
        'start container process: error during container init: error setting cgroup config for '
        'procHooks process: unable to set memory limit to 1000": OCI runtime error',
    ),
    'limit not allowed': (
        409,
        'kiln-runc: runc create failed: unable to start container process: error during '
        'container init: error setting rlimits for ready process: error setting rlimit type 6: '
        'operation not permitted: OCI permission denied',
    ),
    'device unknown': (
        500,
        'container create: stat /dev/nosuch: no such file or directory',
    ),
    'container unknown': (
        404,
        'no container with name or ID "nosuch" found: no such container',
    ),
    'name malformed': (
        500,
        'container create: running container create option: names must match '
        '[a-zA-Z0-9][a-zA-Z0-9_.-]*: invalid argument',
    ),
    'paused again': (500, f'"{I}" is already paused: container state improper'),
    'started while paused': (
        500,
        f'container {I} must be in Created or Stopped state to be started: container state '
        'improper',
    ),
    'resumed while running': (
        500,
        f'"{I}" is not paused, can\'t unpause: container state improper',
    ),
    'paused while stopped': (
        500,
        '"exited" is not running, can\'t pause: container state improper',
    ),
    'port taken': (
        500,
        'cannot listen on the TCP port: listen tcp4 :18099: bind: address already in use',
    ),
    'network attached again': (
        500,
        f'container {I} is already connected to network "n1": network is already connected',
    ),
    'network detached again': (500, 'container p1 is not connected to network n1'),
    'address outside': (500, 'requested static ip 1.2.3.4 not in any subnet on network n1'),
}
