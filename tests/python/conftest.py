# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What all Python tests share.

A shell starts background commands with SIGINT ignored, and Python leaves an ignored signal alone:
the tests of Ctrl-C would then wait for an interrupt that never comes.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
