# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Checked computations on a network of volunteers' computers.

>>> import gpugoblin as gg
>>> with gg.local(hosts=2) as lab:          # or gg.connect() to a lab node
...     c = lab.matmul(a, b)                # every tile is checked before it is used
"""

from gpugoblin._connect import connect
from gpugoblin._errors import (
    ArgumentTypeError,
    CorruptError,
    DTypeError,
    ExhaustedError,
    GoblinError,
    InternalError,
    InvalidArgumentError,
    JobCancelledError,
    JobFailedError,
    NotFoundError,
    TimeoutError,
    UnavailableError,
    UnsupportedError,
)
from gpugoblin._estimate import Estimate
from gpugoblin._files import RawFile
from gpugoblin._job import Job
from gpugoblin._lab import Lab
from gpugoblin._local import LocalLab, local
from gpugoblin._places import own_pin
from gpugoblin._records import (
    ArrayInfo,
    Cost,
    Explanation,
    HostInfo,
    Incident,
    KindInfo,
    NumberInfo,
    Progress,
)

__version__ = "0.1.0"
__all__ = [
    "ArgumentTypeError",
    "ArrayInfo",
    "CorruptError",
    "Cost",
    "DTypeError",
    "Estimate",
    "ExhaustedError",
    "Explanation",
    "GoblinError",
    "HostInfo",
    "Incident",
    "InternalError",
    "InvalidArgumentError",
    "Job",
    "JobCancelledError",
    "JobFailedError",
    "KindInfo",
    "Lab",
    "LocalLab",
    "NotFoundError",
    "NumberInfo",
    "Progress",
    "RawFile",
    "TimeoutError",
    "UnavailableError",
    "UnsupportedError",
    "connect",
    "local",
    "own_pin",
]
