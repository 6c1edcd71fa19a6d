"""What the fault proxy adds to a request.

    python -m tests.bench.bench_proxy [--requests 1000]

Asks a server in a process of its own, straight and through a proxy in this one,
in turns on connections that are kept. Prints microseconds a request, the best of
several rounds, and the ratio. The server does nothing, so the ratio is the worst
there is; fails where a request without a body is dearer by more than 2 ms.
"""

import argparse
import asyncio
import multiprocessing
import socket
import sys
import time

from kiln.testing.proxy import FaultProxy, Hang

ROUNDS = 5
BOUND_US = 2000
SIZES = (0, 1000, 1_000_000)


class Echo(asyncio.Protocol):
    """Answers each request with as many bytes as its path says."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        size = int(data.split(b' ', 2)[1][1:])
        head = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n'
        self.transport.write(head % size + bytes(size))


def serve(pipe):
    async def live():
        server = await asyncio.get_running_loop().create_server(Echo, '127.0.0.1', 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(live())


class Client:
    """One connection, and nothing that costs time."""

    def __init__(self, url):
        host, _, port = url.partition('//')[2].partition(':')
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, size):
        self.socket.sendall(b'GET /%d HTTP/1.1\r\nHost: cloud\r\nX-Auth-Token: t\r\n\r\n' % size)
        answer = self.socket.recv(1 << 20)
        missing = answer.index(b'\r\n\r\n') + 4 + size - len(answer)
        while missing:
            missing -= len(self.socket.recv(1 << 20))


def cost_us(client, size, requests):
    started = time.perf_counter()
    for _ in range(requests):
        client.ask(size)
    return (time.perf_counter() - started) / requests * 1e6


def measure(url, size, requests):
    """Return the microseconds of a request: straight, proxied, and past ten rules."""
    with FaultProxy(url) as plain, FaultProxy(url) as ruled:
        for number in range(10):
            ruled.fault(Hang(), 'GET', f'/servers/{number}')
        clients = [Client(each) for each in (url, plain.url, ruled.url)]
        rounds = [[cost_us(client, size, requests) for client in clients] for _ in range(ROUNDS)]
        for client in clients:
            client.socket.close()
    return [min(costs) for costs in zip(*rounds, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--requests', type=int, default=1000)
    requests = parser.parse_args().requests
    context = multiprocessing.get_context('spawn')
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,))
    server.start()
    try:
        url = f'http://127.0.0.1:{ours.recv()}'
        print(f'{"us per request":>14} {"direct":>9} {"proxied":>9} {"10 rules":>9} {"ratio":>7}')
        added = []
        for size in SIZES:
            fewer = max(10, requests // (1 + size // 10_000))
            direct, proxied, ruled = measure(url, size, fewer)
            added.append(proxied - direct)
            label = f'{size:,} bytes'
            print(f'{label:>14} {direct:9.1f} {proxied:9.1f} {ruled:9.1f} {proxied / direct:7.2f}')
    finally:
        server.terminate()
        server.join()
    return 1 if added[0] > BOUND_US else 0


if __name__ == '__main__':
    sys.exit(main())
