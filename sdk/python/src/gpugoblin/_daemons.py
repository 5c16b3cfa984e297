# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Daemons of the local network as child processes that end with this one."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import select
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpugoblin import _core
from gpugoblin._errors import ExhaustedError, GoblinError, InvalidArgumentError, UnavailableError

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_READY_FD = 3
_LEAST_ROOM = 1 << 20  # bytes of disk, with less of which no daemon can keep its state


class Spawner:
    """A thread that starts processes: the kernel kills them when their starter's thread ends."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="gpugoblin-spawner", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            order()

    def spawn(self, arguments: Sequence[str], log_fd: int, ready_fd: int) -> int:
        """Starts a program; answers its process number."""
        environment = [name + b"=" + value for name, value in os.environb.items()]
        command = [os.fsencode(argument) for argument in arguments]
        answers: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()

        def order() -> None:
            try:
                answers.put(_core.spawn(command, environment, log_fd, ready_fd))
            except BaseException as error:
                answers.put(error)

        self._orders.put(order)
        answer = answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """Ends the thread, and thereby every process that still runs."""
        self._orders.put(None)
        self._thread.join()


class Daemon:
    """One process of the local network.

    Attributes
    ----------
    name : str
        "coordinator", "lab", "host-0", …
    directory : Path
        Its state.
    pin : str
        SHA-256 of its public key.
    """

    def __init__(
        self, name: str, role: str, command: Sequence[str], directory: Path, spawner: Spawner
    ) -> None:
        self.name = name
        self.directory = directory
        self.pin = ""
        self._role = role
        self._command = list(command)
        self._spawner = spawner
        self._pid = 0
        self._pidfd = -1
        self._ready = -1

    @property
    def pid(self) -> int:
        """Its process number; 0 while it does not run."""
        return self._pid if self.running else 0

    @property
    def running(self) -> bool:
        """Whether it runs."""
        if self._pidfd < 0:
            return False
        if not select.select([self._pidfd], [], [], 0)[0]:
            return True
        self._reap()
        return False

    @property
    def output(self) -> Path:
        """What it printed."""
        return self.directory / "output.log"

    def log_text(self, lines: int = 40) -> str:
        """The end of its log and of what it printed."""
        texts = []
        for path in (self.directory / f"{self._role}.log", self.output):
            with contextlib.suppress(OSError):
                text = path.read_text(errors="replace").strip()
                if text:
                    texts.append("\n".join(text.splitlines()[-lines:]))
        return "\n".join(texts) or "(nothing was logged)"

    def _printed(self) -> str:
        try:
            return self.output.read_text(errors="replace")
        except OSError:
            return ""

    def start(self, extra: Sequence[str] = ()) -> None:
        """Starts it without waiting; `ready` waits."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._ready, write_end = os.pipe()
        log = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            command = [*self._command, "--ready-fd", str(_READY_FD), *extra]
            self._pid = self._spawner.spawn(command, log, write_end)
            self._pidfd = os.pidfd_open(self._pid)
        finally:
            os.close(log)
            os.close(write_end)

    def ready(self, timeout: float = _START_SECONDS) -> list[str]:
        """Waits until it is up; answers the words that it then says: port and pin, or pin.

        Raises
        ------
        InvalidArgumentError
            It refuses a setting.
        ExhaustedError
            Its disk is full.
        UnavailableError
            With the end of its log when it ends or stays silent instead.
        """
        until = time.monotonic() + timeout
        line = b""
        try:
            while not line.endswith(b"\n"):
                left = max(until - time.monotonic(), 0)
                if not select.select([self._ready], [], [], min(left, 0.1))[0]:
                    if left == 0:
                        raise self._failure(f"is not up after {timeout:.0f} s")
                    continue
                piece = os.read(self._ready, 256)
                if not piece:
                    self.wait(_STOP_SECONDS)
                    raise self._failure("ended while it started")
                line += piece
        finally:
            os.close(self._ready)
            self._ready = -1
        words = line.decode().split()
        self.pin = words[-1]
        return words

    def wait(self, timeout: float) -> bool:
        """Waits for its end; False when it still runs."""
        if self._pidfd >= 0 and select.select([self._pidfd], [], [], timeout)[0]:
            self._reap()
        return self._pidfd < 0

    def signal(self, number: int) -> None:
        """Sends it a signal, if it runs."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """kill -9, and waits for its end."""
        self.signal(signal.SIGKILL)
        self.wait(_STOP_SECONDS)

    def stop(self) -> None:
        """Asks it to end in order; kills it when it takes too long."""
        self.signal(signal.SIGTERM)
        if not self.wait(_STOP_SECONDS):
            self.kill()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        os.close(self._pidfd)
        self._pidfd = -1

    def _failure(self, what: str) -> GoblinError:
        refused = re.search(r"^goblin: command line: (.*)$", self._printed(), re.MULTILINE)
        if refused:
            return InvalidArgumentError(f"the local {self.name} refuses a setting: {refused[1]}")
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(self.directory).free
            if free < _LEAST_ROOM:
                return ExhaustedError(
                    f"the local {self.name} {what}: {free} bytes are free on the disk of "
                    f"{self.directory}; make room there, or name another directory=; its log:\n"
                    f"{self.log_text()}"
                )
        return UnavailableError(f"the local {self.name} {what}; its log:\n{self.log_text()}")


def settings(values: dict[str, Any]) -> list[str]:
    """Flags that set a daemon's settings."""
    flags: list[str] = []
    for key, value in values.items():
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, (list, tuple)):
            text = ",".join(map(str, value))
        else:
            text = str(value)
        flags += ["--set", f"{key}={text}"]
    return flags
