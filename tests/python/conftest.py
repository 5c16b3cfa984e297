# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What all Python tests share.

A shell starts background commands with SIGINT ignored, and Python leaves an ignored signal alone:
the tests of Ctrl-C would then wait for an interrupt that never comes.
"""

import signal
import sys
from pathlib import Path

# What tests of several folders share.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "testing"))

signal.signal(signal.SIGINT, signal.default_int_handler)
