# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Connections that a daemon should refuse: bytes as an attacker sends them, over real sockets."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from pathlib import Path

HELLO, WELCOME, BLOB_DATA = 1, 2, 18
HEADER = struct.Struct("<4sBBHII")


def header(kind: int, message: int, payload: int = 0) -> bytes:
    """A frame's header."""
    return HEADER.pack(b"GBLN", 1, 0, kind, message, payload)


def frame(kind: int, *words: int) -> bytes:
    """A frame whose message is these words of a segment."""
    return header(kind, 8 * len(words)) + struct.pack(f"<{len(words)}Q", *words)


def struct_pointer(offset: int, data: int, pointers: int) -> int:
    """As Cap'n Proto's encoding has it; `offset` counts words from the pointer's end."""
    return (offset << 2 & 0xFFFFFFFF) | data << 32 | pointers << 48


def list_pointer(offset: int, size: int, count: int) -> int:
    """`size` 0: elements of no size."""
    return (offset << 2 & 0xFFFFFFFF) | 1 | size << 32 | count << 35


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    """A TCP connection from one of the addresses of this machine."""
    return socket.create_connection(("127.0.0.1", port), 10, (source, 0))


def context(
    identity: Path | None,
    *,
    alpn: str | None = "goblin/1",
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> ssl.SSLContext:
    """A client's side; `identity`: a folder with a key and its certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    made.maximum_version = version
    if alpn is not None:
        made.set_alpn_protocols([alpn])
    if identity is not None:
        made.load_cert_chain(identity / "identity.crt", identity / "identity.key")
    return made


def is_closed(peer: socket.socket, seconds: float = 20.0) -> bool:
    """Reads until the daemon closes; False when it has not by then."""
    peer.settimeout(seconds)
    try:
        while peer.recv(4096):
            pass
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        pass
    return True


def answer_to(port: int, tls: ssl.SSLContext, sent: bytes) -> bytes:
    """What the daemon says to these bytes before it closes; b"" when it just closes.

    Raises TimeoutError when it neither answers nor closes within ten seconds.
    """
    try:
        with tls.wrap_socket(connect(port)) as peer:
            if sent:
                peer.sendall(sent)
            received = b""
            # A reset tells as much as an end.
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while piece := peer.recv(4096):
                    received += piece
            return received
    except (ConnectionError, ssl.SSLError):
        return b""
