# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Slow links between hosts and a lab node, as a process: prints "ready" and runs until it is ended.

python _relay.py LISTEN_ADDRESS PORT TARGET_ADDRESS BITS_PER_SECOND ROUND_TRIP_MS

Each connection to LISTEN_ADDRESS:PORT goes on to TARGET_ADDRESS:PORT. Every host has a link of that
rate in each direction, the lab node has one of the same rate that all share; bytes arrive half a
round trip later. What does not fit waits with its sender, as TCP's windows have it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import deque
from dataclasses import dataclass

PIECE = 16 << 10
AHEAD = 4  # pieces of a connection that may queue for the shared link
BUFFER = 64 << 10  # of the relay's own sockets


@dataclass
class Link:
    """One direction of a link: what it takes leaves in order, at its rate."""

    rate: float  # bytes per second
    free: float = 0.0

    def leaves(self, size: int, at: float) -> float:
        """When so many bytes, there from `at` on, have left."""
        self.free = max(self.free, at) + size / self.rate
        return self.free


class Relay:
    """All connections; one event loop."""

    def __init__(self, target: tuple[str, int], rate: float, delay: float) -> None:
        self.target = target
        self.rate = rate
        self.delay = delay
        self.to_hosts, self.to_lab = Link(rate), Link(rate)

    async def connection(self, host: asyncio.StreamReader, to_host: asyncio.StreamWriter) -> None:
        """One host's, until either side ends it."""
        lab, to_lab = await asyncio.open_connection(*self.target, limit=BUFFER)
        for writer in (to_host, to_lab):
            narrow(writer.get_extra_info("socket"))
        await asyncio.gather(
            self.carry(host, to_lab, (Link(self.rate), self.to_lab)),
            self.carry(lab, to_host, (self.to_hosts, Link(self.rate))),
        )

    async def carry(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, links: tuple[Link, Link]
    ) -> None:
        """One direction."""
        clock = asyncio.get_running_loop().time
        arriving: deque[tuple[float, bytes]] = deque()
        more = asyncio.Event()
        delivery = asyncio.create_task(self.deliver(arriving, more, to))
        try:
            while data := await source.read(PIECE):
                left = clock()
                for link in links:
                    left = link.leaves(len(data), left)
                arriving.append((left + self.delay, data))
                more.set()
                await asyncio.sleep(left - clock() - AHEAD * PIECE / self.rate)
        except OSError:
            pass
        arriving.append((clock() + self.delay, b""))
        more.set()
        await delivery

    async def deliver(
        self, arriving: deque[tuple[float, bytes]], more: asyncio.Event, to: asyncio.StreamWriter
    ) -> None:
        """Gives pieces to the receiver when they arrive; an empty one ends it."""
        clock = asyncio.get_running_loop().time
        try:
            while True:
                if not arriving:
                    more.clear()
                    await more.wait()
                when, data = arriving.popleft()
                await asyncio.sleep(when - clock())
                if not data:
                    break
                to.write(data)
                await to.drain()
        except OSError:
            pass
        to.close()


def narrow(connection: socket.socket) -> None:
    """Small buffers, or the kernel's would hide the link."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def main(words: list[str]) -> None:
    """Reads the command line."""
    address, port, target, bits, round_trip_ms = words
    relay = Relay((target, int(port)), float(bits) / 8, float(round_trip_ms) / 2000)
    server = await asyncio.start_server(relay.connection, address, int(port), limit=BUFFER)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
