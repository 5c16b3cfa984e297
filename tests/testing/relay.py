# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Slow links on one machine: a relay between hosts and a lab node that delays and throttles.

A link takes bytes one after another at its rate; after half a round trip they are at the other
end. Each connection has links of its own, one a direction; one that several connections share (the
lab node's own) comes on top. What is on its way is bounded by what a link of that rate and delay
carries and a short queue, as routers have, so senders are slowed down as on a real link.

In a test: ``Relay(("127.0.0.2", port), ("127.0.0.1", port), LinkSpec(50e6, 0.05))``.
From a shell: ``python relay.py 127.0.0.2:7421 127.0.0.1:7421 --mbits 50 --rtt-ms 50``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Address = tuple[str, int]

PIECE: Final = 16 << 10  # bytes that pass as one
QUEUE_S: Final = 0.02  # what waits before a link, in seconds of it
AT_ONCE_S: Final = 0.001  # what came so soon had been there
LATE_S: Final = 0.2  # how late this process may be without slowing a link
SOCKET_BUFFER: Final = 128 << 10  # so that the kernel's own queues add little


@dataclass(frozen=True)
class LinkSpec:
    """A link in both directions.

    Attributes
    ----------
    bits_per_s : float
        Rate of each direction.
    rtt_s : float
        Round trip: half of it passes before a byte that was sent is there.
    """

    bits_per_s: float
    rtt_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.bits_per_s > 0 or not self.rtt_s >= 0:
            raise ValueError(f"a link needs a rate above 0 and a round trip of 0 or more: {self}")


class Link:
    """One direction: when it will have sent what was given to it."""

    def __init__(self, bits_per_s: float) -> None:
        self._bytes_per_s = bits_per_s / 8
        self._free_at = 0.0
        self.bytes = 0

    def send(self, count: int, at: float) -> float:
        """The time at which `count` bytes that come at `at` have left."""
        self._free_at = max(self._free_at, at) + count / self._bytes_per_s
        self.bytes += count
        return self._free_at


class Relay:
    """Passes connections on from `listen` to `target`, in a thread of its own.

    Parameters
    ----------
    listen, target : (str, int)
        Address and port; a port 0 to listen on takes any, which `port` tells.
    link : LinkSpec or sequence of LinkSpec
        Of each connection; of several the first for the first connection, and so on round.
    shared_bits_per_s : float, optional
        Rate of the link, one a direction, that all connections share on the target's side.
    """

    def __init__(
        self,
        listen: Address,
        target: Address,
        link: LinkSpec | Sequence[LinkSpec],
        shared_bits_per_s: float | None = None,
    ) -> None:
        self._links = [link] if isinstance(link, LinkSpec) else list(link)
        if not self._links:
            raise ValueError("link is empty; give one LinkSpec at least")
        self._target = target
        self._shared = [Link(shared_bits_per_s) for _ in "ud"] if shared_bits_per_s else None
        self._count = 0
        self.bytes_to_target = 0
        self.bytes_from_target = 0
        self._listener = socket.create_server(listen)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER)
        self.port = int(self._listener.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every connection."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, sock=self._listener, limit=PIECE)
        )
        self._loop.run_forever()
        server.close()
        # Streams report their own cancellation as an error.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        for task in [*self._tasks, *asyncio.all_tasks(self._loop)]:
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _accept(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        spec = self._links[self._count % len(self._links)]
        self._count += 1
        try:
            there = socket.socket()
            there.setblocking(False)
            there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER)
            await asyncio.sleep(spec.rtt_s)  # the handshake of TCP
            await self._loop.sock_connect(there, self._target)
            far, forth = await asyncio.open_connection(sock=there, limit=PIECE)
            for end in (back, forth):  # asyncio does not where a socket names no protocol
                end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            back.close()
            return
        up, down = Link(spec.bits_per_s), Link(spec.bits_per_s)
        ways = [
            self._loop.create_task(self._pass(near, forth, [up, *self._shared_of(0)], spec, True)),
            self._loop.create_task(self._pass(far, back, [*self._shared_of(1), down], spec, False)),
        ]
        self._tasks.update(ways)
        for way in ways:
            way.add_done_callback(self._tasks.discard)
        await asyncio.wait(ways)
        for end in (back, forth):
            end.close()

    def _shared_of(self, direction: int) -> list[Link]:
        return [self._shared[direction]] if self._shared else []

    async def _pass(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        links: list[Link],
        spec: LinkSpec,
        to_target: bool,
    ) -> None:
        """One direction, until its source ends; then the sink's end follows."""
        way: deque[tuple[float, bytes]] = deque()
        came = asyncio.Event()
        ended = False

        async def deliver() -> None:
            while True:
                while not way:
                    if ended:
                        return
                    came.clear()
                    await came.wait()
                at, data = way.popleft()
                await asyncio.sleep(at - self._loop.time())
                sink.write(data)
                await sink.drain()

        delivering = self._loop.create_task(deliver())
        try:
            asked = free = self._loop.time()  # when the first link had sent what came before
            while data := await source.read(PIECE):
                left = now = self._loop.time()
                if now - asked < AT_ONCE_S:
                    # It had been waiting: that this process was late is no fault of the link.
                    left = min(now, max(free, now - LATE_S))
                for link in links:
                    left = link.send(len(data), left)
                    free = left if link is links[0] else free
                if to_target:
                    self.bytes_to_target += len(data)
                else:
                    self.bytes_from_target += len(data)
                way.append((left + spec.rtt_s / 2, data))
                came.set()
                await asyncio.sleep(left - self._loop.time() - QUEUE_S)
                if delivering.done():
                    break
                asked = self._loop.time()
        except OSError:
            pass
        finally:
            ended = True
            came.set()
        with contextlib.suppress(OSError):
            await delivering
        with contextlib.suppress(OSError, RuntimeError):
            sink.write_eof()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: expected ADDRESS:PORT")
    return host, int(port)


def main() -> None:
    """Relays until its input ends; prints the port first."""
    parser = argparse.ArgumentParser(description="A slow link in front of a port.")
    parser.add_argument("listen", type=_address, help="ADDRESS:PORT; port 0 takes any")
    parser.add_argument("target", type=_address, help="ADDRESS:PORT")
    parser.add_argument("--mbits", type=float, required=True, help="10^6 bits a second, each way")
    parser.add_argument("--rtt-ms", type=float, default=0.0, help="round trip")
    parser.add_argument("--shared-mbits", type=float, help="of the link that all connections share")
    options = parser.parse_args()
    shared = options.shared_mbits * 1e6 if options.shared_mbits else None
    try:
        link = LinkSpec(options.mbits * 1e6, options.rtt_ms / 1e3)
        relay = Relay(options.listen, options.target, link, shared)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    with relay, contextlib.suppress(KeyboardInterrupt):
        print(relay.port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
