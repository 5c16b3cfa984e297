# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Hostile connections to the real daemons: each is refused, none is noticed by anybody else."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import e2e
import hostile_peer as hp
import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin import _local

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, memory="64MiB") as made:
        yield made


@pytest.fixture(scope="module")
def stranger() -> Iterator[Path]:
    """The identity of somebody whom no daemon of `lab` knows."""
    with gg.local(hosts=1) as other:
        yield other.network.coordinator.directory / "identity"


def ports(lab: gg.LocalLab) -> dict[str, int]:
    return {"lab": lab.network.lab.port, "coordinator": lab.network.coordinator.port}


def resident_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def assert_unharmed(lab: gg.LocalLab) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(lab.matmul(a, a.T, progress=False), a @ a.T)
    for daemon in (lab.network.lab, lab.network.coordinator):
        assert e2e.ask(daemon, "status").returncode == 0


# Hello{…} whose lists and pointers are not what they say. A greeting may have 4 KiB.
DEEP = [hp.struct_pointer(0, 0, 1)] * 100 + [0]
GREETINGS = {
    "length 0": hp.header(hp.HELLO, 0),
    "length 2^32 - 8": hp.header(hp.HELLO, 0xFFFFFFF8),
    "length 2^32 - 1": hp.header(hp.HELLO, 0xFFFFFFFF),
    "payload 2^32 - 1": hp.header(hp.HELLO, 8, 0xFFFFFFFF),
    "4 KiB and a word": hp.header(hp.HELLO, 4104),
    "segment count FFFFFFFF": hp.frame(hp.HELLO, 0xFFFFFFFF, 0xFFFFFFFF),
    "void list of 2^29": hp.frame(
        hp.HELLO, hp.struct_pointer(0, 2, 2), 0, 0, hp.list_pointer(1, 0, (1 << 29) - 1), 0
    ),
    "into itself": hp.frame(hp.HELLO, hp.struct_pointer(-1, 0, 1)),
    "nesting 100": hp.frame(hp.HELLO, *DEEP),
    "another segment": hp.frame(hp.HELLO, 2 | 5 << 32),
    "data before the greeting": hp.header(hp.BLOB_DATA, 48, 1000),
    "http": b"GET / HTTP/1.1\r\nHost: goblin\r\n\r\n",
}


@pytest.mark.parametrize("daemon", ["lab", "coordinator"])
def test_greetings_that_are_none(lab: gg.LocalLab, stranger: Path, daemon: str) -> None:
    """Cases 19 to 23: nothing is allocated, nothing answered, the connection is closed."""
    process = lab.network.lab if daemon == "lab" else lab.network.coordinator
    before, pid = resident_mib(process.pid), process.pid
    tls = hp.context(stranger)
    for name, sent in GREETINGS.items():
        for _ in range(5):
            assert hp.answer_to(ports(lab)[daemon], tls, sent) == b"", name
    assert process.pid == pid
    assert resident_mib(process.pid) < before + 20
    assert_unharmed(lab)


@pytest.mark.parametrize("daemon", ["lab", "coordinator"])
def test_tls_that_is_not_ours(lab: gg.LocalLab, stranger: Path, daemon: str) -> None:
    """Case 25: TLS 1.2, no or another ALPN, no certificate."""
    port = ports(lab)[daemon]
    for tls in (
        hp.context(stranger, version=ssl.TLSVersion.TLSv1_2),
        hp.context(stranger, alpn=None),
        hp.context(stranger, alpn="goblin/9"),
        hp.context(None),
    ):
        assert hp.answer_to(port, tls, b"") == b""
    assert_unharmed(lab)


def test_a_key_that_nobody_knows(lab: gg.LocalLab, stranger: Path) -> None:
    """Case 25: a stranger who does everything right learns that it is not admitted, no more."""
    not_authorised, wrong_role = 3, 5
    for role, refusal in ((3, not_authorised), (4, not_authorised), (2, wrong_role)):
        hello = hp.frame(hp.HELLO, hp.struct_pointer(0, 2, 0), 2 | 2 << 16 | role << 32, 0)
        received = hp.answer_to(ports(lab)["lab"], hp.context(stranger), hello)
        assert len(received) == 32
        assert received[:8] == hp.header(hp.WELCOME, 0)[:8]
        assert received[24] == refusal
    assert_unharmed(lab)


def test_a_key_has_one_connection(lab: gg.LocalLab) -> None:
    """An admitted host that connects again and again holds one place, not all."""
    (host,) = lab.network.hosts
    host.kill()
    tls = hp.context(host.directory / "identity")
    hello = hp.frame(hp.HELLO, hp.struct_pointer(0, 2, 0), 2 | 2 << 16 | 3 << 32, 0)
    peers = []
    try:
        for port in ports(lab).values():
            for _ in range(5):
                peer = tls.wrap_socket(hp.connect(port))
                peers.append(peer)
                peer.sendall(hello)
                assert peer.recv(4096)[24] == 0, "it is admitted"
            for earlier in peers[-5:-1]:
                assert hp.is_closed(earlier)
            assert not ended(peers[-1])
    finally:
        for peer in peers:
            peer.close()
    host.restart()
    assert_unharmed(lab)


def ended(peer: socket.socket) -> bool:
    return bool(select.select([peer], [], [], 0)[0]) and peer.recv(1) == b""


def test_silent_and_mute_connections_give_way(lab: gg.LocalLab, stranger: Path) -> None:
    """Case 17: more of them than may be greeted at once, from one address and with TLS done; the
    oldest give way, and a host that comes back gets in at once."""
    tls = hp.context(stranger)
    peers: list[socket.socket] = []
    try:
        for port in ports(lab).values():
            mute = [tls.wrap_socket(hp.connect(port, "127.0.0.2")) for _ in range(20)]
            silent = [hp.connect(port, "127.0.0.2") for _ in range(300)]
            peers += mute + silent
            # At most 256 are greeted at once: these 64 went.
            for peer in (*mute, *silent[:44]):
                assert hp.is_closed(peer)
            assert not ended(silent[-1])
        (host,) = lab.network.hosts
        host.restart()
        assert_unharmed(lab)
    finally:
        for peer in peers:
            peer.close()
    assert_unharmed(lab)


@pytest.mark.parametrize("address", ["224.0.0.1", "ff02::1", "0.0.0.0", "::ffff:0.0.0.0"])
def test_addresses_that_are_none_are_not_connected_to(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lab node says where it is; hosts do not go there, and say why."""
    monkeypatch.setattr(_local, "_JOIN_SECONDS", 5)
    options = {"listen.public-address": address}
    why = "is a multicast or reserved address.*listen.public-address"
    with pytest.raises(gg.UnavailableError, match=why):
        gg.local(hosts=1, memory="64MiB", lab_options=options)
