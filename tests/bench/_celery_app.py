# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The Celery application that _peers.py measures; its worker imports this module."""

from __future__ import annotations

import os

from celery import Celery

URL = f"redis+socket://{os.environ['GOBLIN_BENCH_REDIS']}"
app = Celery("bench", broker=URL, backend=URL)
app.conf.update(task_serializer="json", result_serializer="json", worker_prefetch_multiplier=64)


def _nothing(i: int) -> int:
    return i


nothing = app.task(name="nothing")(_nothing)
