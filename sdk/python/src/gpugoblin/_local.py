# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A whole network on this machine: coordinator, lab node and hosts as processes of their own."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpugoblin import _check, _core, _places, _plugins, _programs
from gpugoblin._daemons import Daemon, Spawner, settings
from gpugoblin._errors import ArgumentTypeError, InvalidArgumentError, UnavailableError
from gpugoblin._lab import Lab

_PREFIX = "gpugoblin-"
_JOIN_SECONDS = 60.0
_PAUSE = 0.01
_LONGEST_DIRECTORY = 75
_LEVELS = ("debug", "info", "warn", "error", "off")
_HOST_KEYS = ("program", "args", "set", "memory", "cache", "threads")

_SEE_LOGS = "the logs of the hosts say why"  # in the lab node's words for a task that failed
_LOG_BYTES = 1 << 20  # of a log's end that are looked through

_running: weakref.WeakSet[LocalNetwork] = weakref.WeakSet()


class LocalNetwork:
    """The processes behind `local()`.

    Attributes
    ----------
    directory : Path
        State and logs.
    sockets : Path
        Where the daemons' sockets are.
    coordinator, lab : Daemon
    hosts : list of Daemon
        Validators last.
    keep : bool
        Whether state and logs stay.
    """

    def __init__(self, directory: Path, sockets: Path, locks: Sequence[int], keep: bool) -> None:
        self.directory = directory
        self.sockets = sockets
        self.hosts: list[NetworkDaemon] = []
        self.coordinator: NetworkDaemon
        self.lab: NetworkDaemon
        self._locks = locks
        self.keep = keep
        self._owner = os.getpid()
        self._spawner = Spawner()
        self._closed = False
        _running.add(self)

    def daemons(self) -> list[NetworkDaemon]:
        """All of them, in the order in which they are stopped."""
        rest = [getattr(self, name, None) for name in ("lab", "coordinator")]
        return [*self.hosts, *(daemon for daemon in rest if daemon is not None)]

    def close(self) -> None:
        """Ends every process and, unless it is to be kept, removes the directory."""
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        # Nothing of a throw-away network is worth an orderly end.
        for daemon in self.daemons():
            daemon.kill()
        self._spawner.close()
        if self.sockets != self.directory:
            shutil.rmtree(self.sockets, ignore_errors=True)
        if not self.keep:
            shutil.rmtree(self.directory, ignore_errors=True)
        for lock in self._locks:
            os.close(lock)


class NetworkDaemon(Daemon):
    """A daemon that keeps its port when it is started again."""

    def __init__(
        self,
        network: LocalNetwork,
        name: str,
        role: str,
        program: Sequence[str],
        values: dict[str, Any],
        arguments: Sequence[str] = (),
    ) -> None:
        directory = network.directory / name
        command = [program[0], role, "run", *program[1:], "--state-dir", str(directory)]
        super().__init__(name, role, command, directory, network._spawner)
        self.socket = directory / f"{role}.sock"
        self._values = dict(values)
        if network.sockets != network.directory:
            self.socket = network.sockets / f"{name}.sock"
            self._values["socket"] = self.socket
        self._arguments = list(arguments)
        self.port = 0

    def launch(self) -> None:
        """Starts it without waiting."""
        values = dict(self._values)
        if self.port:
            values["listen.port"] = self.port
        self.start([*settings(values), *self._arguments])

    def await_ready(self) -> None:
        """Waits until it is up."""
        words = self.ready()
        if len(words) == 2:
            self.port = int(words[0])

    def restart(self) -> None:
        """Kills it if it runs, starts it again with its state and port, waits until it is up."""
        self.kill()
        self.launch()
        self.await_ready()


class LocalLab(Lab):
    """The lab node of a local network.

    Closing it, leaving its context or ending the program ends the network.

    Attributes
    ----------
    network : LocalNetwork
        Its processes, for tests and the curious.
    """

    network: LocalNetwork

    def _words_of_hosts(self, job: int, said: str) -> str:
        if _SEE_LOGS not in said:
            return ""
        logs = [host.directory / "host.log" for host in self.network.hosts]
        where = f"logs: {', '.join(map(str, logs))}"
        if not self.network.keep:
            where += "; they are removed with the network unless it has keep=True"
        for host, log in zip(self.network.hosts, logs, strict=True):
            words = _last_failure(log, job)
            if words:
                return f"; {host.name} says: {words} ({where})"
        return f" ({where})"

    def close(self) -> None:
        """Ends the network; results that were fetched stay usable."""
        super().close()
        self.network.close()


def _last_failure(log: Path, job: int) -> str:
    """What a host logged last of a task of this job that failed."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _LOG_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    failure = re.compile(
        rf"(?:a task failed: .*?|runner of )\bjob {job} of lab node [0-9a-f]{{16}}"
        r"(?:, lease \d+(?: and those with it)?)?: (.*)"
    )
    found = [match[1] for match in map(failure.search, lines) if match]
    return found[-1] if found else ""


def local(
    hosts: int = 2,
    memory: str | int = "256MiB",
    *,
    threads: int = 1,
    cache: str | int = "1GiB",
    validators: int = 0,
    plugins: Sequence[str | os.PathLike[str]] = (),
    installed_plugins: bool = True,
    keep: bool = False,
    log_level: str = "warn",
    directory: str | os.PathLike[str] | None = None,
    host_options: Sequence[Mapping[str, Any]] = (),
    lab_options: Mapping[str, Any] | None = None,
    coordinator_options: Mapping[str, Any] | None = None,
    patience: float = 60.0,
) -> LocalLab:
    """Starts a whole network on this machine: real processes and checks, throw-away state.

    Parameters
    ----------
    hosts : int
        How many hosts compute.
    memory, cache : str or int
        Cap of each host's runner, and of its input cache on disk: "256MiB", or bytes.
    threads : int
        Of each host.
    validators : int
        Further hosts that are trusted, for ``policy="validator"``.
    plugins : sequence of str or Path
        Plugin libraries beside the installed ones; signed, as those are, with keys that are made
        for this network alone.
    installed_plugins : bool
        Whether the network has the plugins of the installation.
    keep : bool
        Leave state and logs behind; `lab.network.directory` says where.
    log_level : {"debug", "info", "warn", "error", "off"}
    directory : str or Path, optional
        Where the state goes; the system's folder for temporary files by default. Arrays in memory
        and results pass through it, so it needs room for them.
    host_options : sequence of mappings, optional
        For each host: ``program`` (another host program), ``args`` (further arguments), ``set``
        (settings by name), ``memory``, ``cache``, ``threads``.
    lab_options, coordinator_options : mapping, optional
        Settings by name, as ``goblin lab config-check`` lists them.
    patience : float
        As in `connect`.

    Returns
    -------
    LocalLab
        A `Lab`, once every host is connected; close it, or use it as a context manager.

    Raises
    ------
    InvalidArgumentError
        Names the argument; a plugin's file that is none, or none for this release, too; a setting
        that a process refuses, such as less than 64 MiB of ``memory``.
    ExhaustedError
        The disk of ``directory`` is full.
    NotFoundError
        The program `goblin`, or a plugin's file, is missing.
    UnavailableError
        A process did not start; its log is in the message.
    """
    hosts, validators, threads = _check_counts(hosts, validators, threads)
    per_host = [_host_given(i, o) for i, o in enumerate(_options_list(host_options))]
    if len(per_host) > hosts + validators:
        raise InvalidArgumentError(
            f"host_options describes {len(per_host)} hosts, but there are {hosts + validators}"
        )
    caps = {
        "memory": _check.size("memory", memory),
        "cache": _check.size("cache", cache),
        "threads": threads,
        "nice": 0,
    }
    for_lab = _settings("lab_options", {} if lab_options is None else lab_options)
    for_coordinator = _settings(
        "coordinator_options", {} if coordinator_options is None else coordinator_options
    )
    _check.flag("keep", keep)
    _check.choice("log_level", log_level, _LEVELS)
    patience = _check.seconds("patience", patience)
    # Absolute: the program may change its folder before the network ends.
    root = None if directory is None else _check.path("directory", directory).absolute()
    goblin = str(_programs.find())
    _check.flag("installed_plugins", installed_plugins)
    paths = _plugins.checked(goblin, plugins, installed_plugins)
    network = _make_network(root, keep)
    try:
        # The user's own settings are for the user's own daemons.
        own = ["--config", str(network.directory / "empty.toml")]
        program = [goblin, *own]
        of_timestamp = {k: v for k, v in for_coordinator.items() if k.startswith("timestamp.")}
        root_file = _plugins.publish(
            goblin,
            network.directory / "keys",
            network.directory / "coordinator",
            paths,
            installed_plugins,
            [*own, *settings(of_timestamp)],
        )
        logging = {"log.level": log_level, "log.stderr": False}
        here = {"listen.address": "127.0.0.1", "listen.port": 0}
        network.coordinator = NetworkDaemon(
            network,
            "coordinator",
            "coordinator",
            program,
            {**logging, **here, **for_coordinator},
        )
        network.coordinator.launch()
        network.coordinator.await_ready()
        shared = {
            **logging,
            "coordinator.address": f"127.0.0.1:{network.coordinator.port}",
            "coordinator.pin": network.coordinator.pin,
            "trust.root": root_file,
        }
        for index in range(hosts + validators):
            given = per_host[index] if index < len(per_host) else {}
            network.hosts.append(_host(network, index, program, {**shared, **caps}, given))
        for host in network.hosts:
            host.launch()
        for host in network.hosts:
            host.await_ready()
        trusted = [host.pin for host in network.hosts[hosts:]]
        values = {**shared, **here, "hosts.validators": trusted, **for_lab}
        if not trusted:
            values.pop("hosts.validators")
        network.lab = NetworkDaemon(network, "lab", "lab", program, values)
        network.lab.launch()
        network.lab.await_ready()
        return _connect(network, patience)
    except BaseException:
        network.close()
        raise


def _check_counts(hosts: int, validators: int, threads: int) -> tuple[int, int, int]:
    hosts = _check.integer("hosts", hosts, 0, 1000)
    validators = _check.integer("validators", validators, 0, 1000)
    if hosts + validators == 0:
        raise InvalidArgumentError("hosts is 0: at least one host has to compute")
    return hosts, validators, _check.integer("threads", threads, 1, 1024)


def _options_list(host_options: Any) -> list[Any]:
    return _check.sequence("host_options", host_options, "one mapping for each host")


def _host_given(index: int, options: Any) -> dict[str, Any]:
    """What a caller says of one host, checked."""
    name = f"host_options[{index}]"
    given = dict(_check.mapping(name, options, "a mapping, such as {'threads': 2}"))
    for key in given:
        if key not in _HOST_KEYS:
            raise InvalidArgumentError(
                f"{name} has no {_check.shown(key)}; it takes {', '.join(_HOST_KEYS)}"
            )
    for key in ("memory", "cache"):
        if key in given:
            given[key] = _check.size(f"{name}: {key}", given[key])
    if "threads" in given:
        given["threads"] = _check.integer(f"{name}: threads", given["threads"], 1, 1024)
    if "program" in given:
        given["program"] = _check.path(f"{name}: program", given["program"])
    given["args"] = _check.sequence(
        f"{name}: args", given.get("args", ()), "command-line arguments"
    )
    given["set"] = _settings(f"{name}: set", given.get("set", {}))
    return given


def _settings(name: str, values: Any) -> dict[str, Any]:
    """Settings by name that a command line can carry."""
    found = dict(_check.mapping(name, values, "a mapping from settings to values"))
    for key, value in found.items():
        _check.text(f"a setting's name in {name}", key, 'text, such as "log.level"')
        many = isinstance(value, (list, tuple))
        for item in value if many else [value]:
            if not isinstance(item, (str, int, float, os.PathLike, np.integer, np.floating)):
                raise ArgumentTypeError(
                    f"{name}: '{key}' is {_check.shown(item)} ({type(item).__name__}): pass text, "
                    "a number, True or False, or a list of them"
                )
            if "\0" in str(item) or (many and "," in str(item)):
                raise InvalidArgumentError(
                    f"{name}: '{key}' is {_check.shown(item)}; a value has no NUL, "
                    "and one of a list no comma"
                )
    return found


def _host(
    network: LocalNetwork,
    index: int,
    program: Sequence[str],
    values: dict[str, Any],
    given: dict[str, Any],
) -> NetworkDaemon:
    own = [os.fspath(given["program"])] if "program" in given else program
    arguments = [str(argument) for argument in given.get("args", ())]
    caps: dict[str, Any] = {
        key: given[key] for key in ("memory", "cache", "threads") if key in given
    }
    return NetworkDaemon(
        network,
        f"host-{index}",
        "host",
        own,
        {**values, **given.get("set", {}), **caps},
        arguments=arguments,
    )


def _make_network(parent: Path | None, keep: bool) -> LocalNetwork:
    root = parent if parent is not None else Path(tempfile.gettempdir())
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        directory, lock = _locked_directory(root)
    except OSError as error:
        raise InvalidArgumentError(
            f"directory: no state can be kept in {root}: {error.strerror or error}; name another"
        ) from error
    (directory / "empty.toml").touch()
    if keep:
        (directory / "keep").touch()
    # A socket's path has to be short, which that of a state directory need not be.
    if len(os.fsencode(directory)) <= _LONGEST_DIRECTORY:
        return LocalNetwork(directory, directory, [lock], keep)
    sockets, second = _locked_directory(Path(tempfile.gettempdir()))
    return LocalNetwork(directory, sockets, [lock, second], keep)


def _locked_directory(root: Path) -> tuple[Path, int]:
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    # Locked before it has its name: another program that sweeps must not find it unlocked.
    new = directory / "lock.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(directory / "lock")
    return directory, lock


def _sweep(root: Path) -> None:
    """Removes what programs left behind that were killed: their locks went with them."""
    for left in root.glob(f"{_PREFIX}*/lock"):
        if (left.parent / "keep").exists():
            continue
        with contextlib.suppress(OSError):
            handle = os.open(left, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left.parent, ignore_errors=True)
            finally:
                os.close(handle)


def _connect(network: LocalNetwork, patience: float) -> LocalLab:
    place = _places.parse(network.lab.socket)
    client = _core.Client(os.fsencode(place.socket), "", 0, "", b"", patience)
    lab = LocalLab(client, place.text, is_local=True)
    lab.network = network
    try:
        client.connect(10.0)
        _await_hosts(lab)
    except BaseException:
        Lab.close(lab)
        raise
    return lab


def _await_hosts(lab: LocalLab) -> None:
    wanted = {host.pin for host in lab.network.hosts}
    until = time.monotonic() + _JOIN_SECONDS
    while True:
        joined = {host.host for host in lab.hosts() if host.connected}
        if wanted <= joined:
            return
        for host in lab.network.hosts:
            if not host.running:
                raise UnavailableError(f"the local {host.name} ended; its log:\n{host.log_text()}")
        if time.monotonic() > until:
            logs = "\n".join(
                f"{daemon.name}:\n{daemon.log_text(15)}" for daemon in lab.network.daemons()
            )
            raise UnavailableError(
                f"{len(wanted - joined)} of {len(wanted)} local hosts have not reached the lab "
                f"node within {_JOIN_SECONDS:.0f} s; logs:\n{logs}"
            )
        time.sleep(_PAUSE)


@atexit.register
def _close_all() -> None:
    for network in list(_running):
        with contextlib.suppress(Exception):
            network.close()
