# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Addresses of lab nodes, and where this user's files are (as hosts/common/paths.hpp)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from gpugoblin import _check, _core
from gpugoblin._errors import GoblinError, InvalidArgumentError, NotFoundError

_LONGEST_SOCKET = 107


@dataclass(frozen=True)
class Place:
    """A Unix socket, or a name and port over TLS."""

    text: str
    socket: str = ""
    host: str = ""
    port: int = 0
    pin: str = ""

    @property
    def tls(self) -> bool:
        """Whether it is another machine, or may be."""
        return not self.socket


def state_directory(role: str) -> Path:
    """Where a role keeps its state by default."""
    if os.geteuid() == 0:
        return Path("/var/lib/gpugoblin") / role
    base = os.environ.get("XDG_STATE_HOME", "")
    if base.startswith("/"):
        return Path(base) / "gpugoblin" / role
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        raise NotFoundError(
            "neither XDG_STATE_HOME nor HOME holds an absolute path: name the lab node's address"
        )
    return Path(home) / ".local/state/gpugoblin" / role


def default_address() -> str:
    """$GPUGOBLIN_ADDRESS, else the socket of a lab node with its default settings."""
    given = os.environ.get("GPUGOBLIN_ADDRESS")
    return given if given else str(state_directory("lab") / "lab.sock")


def default_identity() -> Path:
    """Directory of this user's key."""
    return state_directory("client") / "identity"


def identity_directory(identity: str | os.PathLike[str] | None) -> bytes:
    """The directory of a user's key, as the extension takes it."""
    if identity is None:
        return os.fsencode(default_identity())
    return os.fsencode(_check.path("identity", identity).absolute())


def own_pin(identity: str | os.PathLike[str] | None = None) -> str:
    """The pin of this user's key, which a lab node's ``clients.allow`` has to list for TLS.

    Parameters
    ----------
    identity : str or Path, optional
        Directory of the key, made when missing; this user's own by default.

    Raises
    ------
    UnavailableError, CorruptError
        The directory cannot be used, or holds something else than a key.
    """
    directory = identity_directory(identity)
    try:
        return _core.own_pin(directory)
    except GoblinError as error:
        raise type(error)(f"identity: {error}") from None


def parse(address: str | os.PathLike[str]) -> Place:
    """Reads an address."""
    if isinstance(address, str):
        if not address:
            raise InvalidArgumentError("address is empty: name a socket, or host:port#pin")
        here = address.startswith(("/", "./", "../"))
        if not here and ("#" in address or re.fullmatch(r"[^/]+:\d+", address)):
            return _parse_tls(address)
    named = _check.path("address", address)
    socket = str(named.absolute())
    if len(os.fsencode(socket)) > _LONGEST_SOCKET:
        raise InvalidArgumentError(
            f"address {socket} is longer than the {_LONGEST_SOCKET} bytes that Linux allows for a "
            "socket: use a shorter directory"
        )
    return Place(os.fspath(address), socket=socket)


def _parse_tls(text: str) -> Place:
    where, _, pin = text.partition("#")
    host, _, port = where.rpartition(":")
    if not re.fullmatch(r"[0-9a-fA-F]{64}", pin):
        raise InvalidArgumentError(
            f"address {_check.shown(text)} lacks the lab node's pin: write host:port#pin "
            "with the 64 digits that the lab node shows when it starts"
        )
    fits = re.fullmatch(r"[!-~]{1,255}", host) and re.fullmatch(r"[0-9]{1,5}", port)
    if not fits or not 0 < int(port) < 65536:
        raise InvalidArgumentError(
            f"address {_check.shown(text)} has no host and port from 1 to 65535: write "
            "host:port#pin"
        )
    return Place(text, host=host.strip("[]"), port=int(port), pin=pin.lower())


def nobody(place: Place, why: str) -> str:
    """What to do when a first connection fails."""
    if place.tls:
        return (
            f"no lab node answers at {place.host}:{place.port} ({why}); is it running, and does "
            "its firewall let this machine in?"
        )
    elsewhere = "" if "/" in place.text else " (of another machine: host:port#pin)"
    return (
        f"no lab node answers at '{place.socket}' ({why}); start one with `goblin lab run`, name "
        f"another address{elsewhere}, or start a whole network here with gpugoblin.local()"
    )
