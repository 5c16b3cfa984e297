# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Clients that hold connections and say next to nothing, as a process of its own.

python _slow_loris.py CLIENTS PORT… : prints a line once all are connected; ends with its input.
Of ten clients six are silent, three send a byte of a TLS handshake each second, one opens a
handshake and goes no further. Whoever is closed comes again a second later; from 100 addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys

RECORD = bytes.fromhex("16030100fa010000f60303")  # how a ClientHello begins


def client_hello() -> bytes:
    """A whole one, to which a server answers with all that it has to compute."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    tls.set_alpn_protocols(["goblin/1"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


async def client(number: int, port: int, hello: bytes, connected: asyncio.Semaphore) -> None:
    """One client, for ever."""
    first = True
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=(f"127.0.1.{number % 100 + 1}", 0)
            )
            if first:
                first = False
                connected.release()
            kind = number % 10
            if kind == 9:
                writer.write(hello)
            for byte in RECORD * 50 if 6 <= kind < 9 else b"":
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)
            while await reader.read(4096):
                pass
            writer.close()
        await asyncio.sleep(1)


async def main() -> None:
    """All clients, in turn over the ports."""
    clients, ports = int(sys.argv[1]), [int(port) for port in sys.argv[2:]]
    hello, connected = client_hello(), asyncio.Semaphore(0)
    tasks = []
    for number in range(clients):
        port = ports[number % len(ports)]
        tasks.append(asyncio.create_task(client(number, port, hello, connected)))
        if number % 50 == 49:
            await asyncio.sleep(0.02)
    for _ in range(clients):
        await connected.acquire()
    print("connected", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
