# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Connecting to a lab node."""

from __future__ import annotations

import os

from gpugoblin import _check, _core, _places
from gpugoblin._errors import UnavailableError
from gpugoblin._lab import Lab


def connect(
    address: str | os.PathLike[str] | None = None,
    *,
    timeout: float = 10.0,
    patience: float = 60.0,
    identity: str | os.PathLike[str] | None = None,
) -> Lab:
    """Connects to a lab node.

    Parameters
    ----------
    address : str or Path, optional
        Path of the lab node's Unix socket on this machine, or ``"host:port#pin"`` for TLS, where
        `pin` is the 64 digits that the lab node shows. By default the environment's
        ``GPUGOBLIN_ADDRESS``, else the socket in the default state directory.
    timeout : float
        Seconds for the first connection.
    patience : float
        Seconds that calls wait for a lab node that is being started again.
    identity : str or Path, optional
        TLS: directory of this user's key, made when missing; see `own_pin`.

    Returns
    -------
    Lab

    Raises
    ------
    UnavailableError
        Nobody answers there.
    UnsupportedError
        The versions do not fit; the message says which side to upgrade.
    InvalidArgumentError
        The address is malformed, or the lab node does not admit this user's key.
    CorruptError
        Another key than `pin` answers.
    """
    wait = _check.seconds("timeout", timeout)
    patience = _check.seconds("patience", patience)
    place = _places.parse(_places.default_address() if address is None else address)
    key = b"" if not place.tls else _places.identity_directory(identity)
    client = _core.Client(
        os.fsencode(place.socket), place.host, place.port, place.pin, key, patience
    )
    try:
        answered = client.connect(wait)
    except UnavailableError as error:
        client.close()
        raise UnavailableError(_places.nobody(place, str(error))) from None
    except BaseException:
        client.close()
        raise
    if not answered:
        client.close()
        raise UnavailableError(_places.nobody(place, f"no answer within {wait:g} s"))
    return Lab(client, place.text, is_local=not place.tls)
