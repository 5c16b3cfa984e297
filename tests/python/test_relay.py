# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The relay that stands in for slow links: never faster than they, and bytes stay as they are."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from e2e import ROOT
from relay import LinkSpec, Relay

LOOPBACK = "127.0.0.1"


@contextmanager
def echo() -> Iterator[int]:
    """A server that sends back what comes, and ends when its peer does."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=send_back, args=(peer,), daemon=True).start()

        def send_back(peer: socket.socket) -> None:
            with peer:
                while data := peer.recv(1 << 16):
                    peer.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def exchange(port: int, data: bytes) -> tuple[float, bytes]:
    """Sends all, reads all back; seconds from the first byte to the last."""
    with socket.create_connection((LOOPBACK, port)) as peer:
        start = time.monotonic()
        sender = threading.Thread(target=peer.sendall, args=(data,))
        sender.start()
        answer = bytearray()
        while len(answer) < len(data):
            answer += peer.recv(1 << 16)
        sender.join()
        return time.monotonic() - start, bytes(answer)


@pytest.mark.parametrize(("mbits", "rtt_ms"), [(10, 20), (50, 50), (100, 200)])
def test_link_takes_its_time(mbits: int, rtt_ms: int) -> None:
    data = bytes(range(256)) * (mbits * 1000 // 8)  # a quarter of a second
    with (
        echo() as target,
        Relay((LOOPBACK, 0), (LOOPBACK, target), LinkSpec(mbits * 1e6, rtt_ms / 1e3)) as relay,
    ):
        seconds, answer = exchange(relay.port, data)
        assert answer == data
        assert (relay.bytes_to_target, relay.bytes_from_target) == (len(data), len(data))
        # Both directions at once; the way back waits for a piece, not for the whole.
        least = len(data) * 8 / (mbits * 1e6) + rtt_ms / 1e3
        assert 0.99 * least <= seconds < 2 * least + 1


def test_a_byte_takes_the_round_trip() -> None:
    spec = LinkSpec(1e9, 0.1)
    with echo() as target, Relay((LOOPBACK, 0), (LOOPBACK, target), spec) as relay:
        assert 0.099 <= exchange(relay.port, b"x")[0] < 1


def test_connections_share_a_link() -> None:
    data = bytes(250_000)  # 0.2 s of 10 Mbit/s
    with (
        echo() as target,
        Relay((LOOPBACK, 0), (LOOPBACK, target), LinkSpec(1e9), 10e6) as relay,
    ):
        start = time.monotonic()
        peers = [threading.Thread(target=exchange, args=(relay.port, data)) for _ in range(3)]
        for peer in peers:
            peer.start()
        for peer in peers:
            peer.join()
        assert time.monotonic() - start >= 0.99 * 0.6


def test_connections_have_links_of_their_own() -> None:
    data = bytes(125_000)
    links = [LinkSpec(1e9), LinkSpec(2e6)]
    with echo() as target, Relay((LOOPBACK, 0), (LOOPBACK, target), links) as relay:
        assert exchange(relay.port, data)[0] < 0.4
        assert exchange(relay.port, data)[0] >= 0.99 * 0.5


def test_ends_are_passed_on() -> None:
    with (
        echo() as target,
        Relay((LOOPBACK, 0), (LOOPBACK, target), LinkSpec(1e8, 0.01)) as relay,
        socket.create_connection((LOOPBACK, relay.port)) as peer,
    ):
        peer.sendall(b"last words")
        peer.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while data := peer.recv(100):
            answer += data
        assert answer == b"last words"


def test_nobody_at_the_target() -> None:
    with socket.create_server((LOOPBACK, 0)) as free:
        port = int(free.getsockname()[1])
    with (
        Relay((LOOPBACK, 0), (LOOPBACK, port), LinkSpec(1e8)) as relay,
        socket.create_connection((LOOPBACK, relay.port)) as peer,
    ):
        assert peer.recv(1) == b""


def test_bad_links() -> None:
    with pytest.raises(ValueError, match="rate above 0"):
        LinkSpec(0.0)
    with pytest.raises(ValueError, match="round trip"):
        LinkSpec(1e6, -1.0)
    with pytest.raises(ValueError, match="at least"):
        Relay((LOOPBACK, 0), (LOOPBACK, 1), [])


def test_as_a_program() -> None:
    command = [sys.executable, str(ROOT / "tests/testing/relay.py"), f"{LOOPBACK}:0"]
    refused = subprocess.run([*command, "nowhere", "--mbits", "1"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "expected ADDRESS:PORT" in refused.stderr
    with (
        echo() as target,
        subprocess.Popen(
            [*command, f"{LOOPBACK}:{target}", "--mbits", "8", "--rtt-ms", "20"],
            stdout=subprocess.PIPE,
            text=True,
        ) as program,
    ):
        assert program.stdout is not None
        seconds, answer = exchange(int(program.stdout.readline()), bytes(100_000))
        assert answer == bytes(100_000)
        assert seconds >= 0.99 * 0.12
        program.terminate()
