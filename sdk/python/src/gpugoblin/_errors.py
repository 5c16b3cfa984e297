# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What can go wrong, as exceptions named by what the caller can do about it."""

from __future__ import annotations

import builtins


class GoblinError(Exception):
    """Base of every error of this package.

    Attributes
    ----------
    lost : bool
        The connection broke before the lab node answered.
    """

    lost: bool = False


class InvalidArgumentError(GoblinError, ValueError):
    """Mend the argument that the message names."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """Pass the argument as the type that the message names."""


class DTypeError(ArgumentTypeError):
    """The argument's type or dtype is not one that the network computes with."""


class NotFoundError(GoblinError, LookupError):
    """Ask for something that exists."""


class UnsupportedError(GoblinError):
    """Use another version, backend or option; the message says which side to upgrade."""


class UnavailableError(GoblinError, ConnectionError):
    """Try again later, or start what does not answer."""


class ExhaustedError(GoblinError, MemoryError):
    """Offer more memory or disk, or ask for less."""


class CorruptError(GoblinError):
    """Bytes, or a key, are not what they claim to be."""


class InternalError(GoblinError):
    """A bug on the side that says so."""


class TimeoutError(GoblinError, builtins.TimeoutError):
    """The time that the caller gave has passed."""


class JobFailedError(GoblinError):
    """A job ended without a result.

    Attributes
    ----------
    job : int
        Its number; `lab.job(number).explain()` tells more.
    reason : str
        The code of the failure, such as ``"exhausted"``.
    """

    job: int = 0
    reason: str = ""


class JobCancelledError(GoblinError):
    """The job, or the connection, was ended by somebody.

    Attributes
    ----------
    job : int
        The job's number; 0 when it was the connection.
    """

    job: int = 0


CODES: dict[int, tuple[str, type[GoblinError]]] = {
    1: ("invalid_argument", InvalidArgumentError),
    2: ("not_found", NotFoundError),
    3: ("unsupported", UnsupportedError),
    4: ("unavailable", UnavailableError),
    5: ("exhausted", ExhaustedError),
    6: ("corrupt", CorruptError),
    7: ("cancelled", JobCancelledError),
    8: ("internal", InternalError),
}


def error_of(code: int, message: str, lost: bool = False) -> GoblinError:
    """The exception for a code of the network; `_core` calls this."""
    _, kind = CODES.get(code, CODES[8])
    error = kind(message)
    error.lost = lost
    return error


def failed(job: int, kind: str, code: int, message: str) -> GoblinError:
    """The exception for a job that ended without a result."""
    reason, _ = CODES.get(code, CODES[8])
    if code == 7:
        cancelled = JobCancelledError(f"job {job} ({kind}) was cancelled")
        cancelled.job = job
        return cancelled
    error = JobFailedError(f"job {job} ({kind}) failed: {message} [{reason}]")
    error.job = job
    error.reason = reason
    return error
