# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A submission on its way: arrays are staged or served, files are handed over."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gpugoblin import _core, _outputs, _submission
from gpugoblin._arrays import Operand
from gpugoblin._errors import UnavailableError

_ATTEMPTS = 20


def send(
    client: _core.Client,
    request: dict[str, Any],
    operands: Sequence[Operand],
    targets: Mapping[str, _outputs.Target],
    *,
    is_local: bool,
) -> dict[str, Any]:
    """Submits; again with the same token, thus the same job, when the lab node went away."""
    attempt = 0
    while True:
        try:
            if is_local:
                return _send_local(client, request, operands, targets)
            return _send_remote(client, request, operands)
        except UnavailableError as error:
            attempt += 1
            if not error.lost or attempt == _ATTEMPTS:
                raise


def _send_local(
    client: _core.Client,
    request: dict[str, Any],
    operands: Sequence[Operand],
    targets: Mapping[str, _outputs.Target],
) -> dict[str, Any]:
    files = [(op.file.path, False) for op in operands if op.file is not None]
    places = [t for t in targets.values() if t.file is not None]
    inputs: list[dict[str, Any]] = []
    stages: dict[tuple[int, int, str], int] = {}
    epochs: set[int] = set()
    fd_index = 0
    for op in operands:
        if op.file is not None:
            inputs.append(_submission.wire_input(op, _submission.FILE, fd_index=fd_index))
            fd_index += 1
            continue
        source = op.source
        assert source is not None
        key = (source.__array_interface__["data"][0], op.copied_bytes, str(source.strides))
        if key not in stages:
            stages[key], fd, epoch = client.stage(op.copied_bytes)
            epochs.add(epoch)
            try:
                op.write_to(fd)
            finally:
                os.close(fd)
        inputs.append(_submission.wire_input(op, _submission.STAGED, stage=stages[key]))
    outputs = [t.wire(fd_index + i) for i, t in enumerate(places)]
    if len(epochs) > 1:
        # What was staged before the connection broke went with it.
        error = UnavailableError("the connection to the lab node broke between two arrays")
        error.lost = True
        raise error
    with _outputs.opened(files + [(t.path, True) for t in places]) as fds:
        body = {**request, "inputs": inputs, "outputs": outputs}
        return client.submit(body, fds, max(epochs, default=0))


def _send_remote(
    client: _core.Client, request: dict[str, Any], operands: Sequence[Operand]
) -> dict[str, Any]:
    digests: list[bytes] = []
    inputs = []
    try:
        for op in operands:
            digests.append(client.serve(_submission.bytes_of(op)))
            inputs.append(_submission.wire_input(op, _submission.BLOB, digest=digests[-1]))
        return client.submit({**request, "inputs": inputs}, [], 0)
    finally:
        for digest in digests:
            client.unserve(digest)
