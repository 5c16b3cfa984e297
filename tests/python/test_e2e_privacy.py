# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Names stay in the lab: canaries in file, folder and variable names never leave the lab node."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg

pytestmark = pytest.mark.timeout(60)

ELSEWHERE = "127.0.0.2"
CANARY = "xyzzyCANARYplugh"
# A row of numbers that is told from chance: in hosts' caches, but never in the clear on the wire.
PATTERN = np.array([3.25, -7.5, 11.125, 1e-3, 42.0, -0.375, 6.5e7, 2.0], np.float32)


def spellings(text: str) -> list[bytes]:
    plain = text.encode()
    return [plain, plain.lower(), text.encode("utf-16-le"), plain.hex().encode(), plain[::-1]]


def found_in(data: bytes | bytearray, text: str = CANARY) -> bool:
    return any(spelling in data for spelling in spellings(text))


class Relay:
    """Passes connections on to a port and keeps a copy of every byte, both ways."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.captured = bytearray()
        # The same port at another address: a lab node tells its own port, but any address.
        self._listener = socket.create_server((ELSEWHERE, target))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._listener], [], [], 0.1)[0]:
                continue
            here, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(here,), daemon=True).start()

    def _serve(self, here: socket.socket) -> None:
        with here:
            try:
                there = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            with there:
                pairs = {here: there, there: here}
                while not self._ended.is_set():
                    for source in select.select(list(pairs), [], [], 0.1)[0]:
                        try:
                            data = source.recv(1 << 18)
                            pairs[source].sendall(data)
                        except OSError:
                            return
                        if not data:
                            return
                        self.captured += data

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._listener.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Scene:
    """A network whose hosts reach everybody through relays, and a job full of canaries."""

    def __init__(self, directory: Path) -> None:
        self.relays = [Relay(free_port()), Relay(free_port())]
        to_coordinator, to_lab = self.relays
        hidden = directory / f"folder-{CANARY}"
        hidden.mkdir()
        rng = np.random.default_rng(1)
        matrix = rng.standard_normal((900, 700)).astype(np.float32)
        matrix[450, : len(PATTERN)] = PATTERN
        np.save(hidden / f"a-{CANARY}.npy", matrix)
        self.lab = gg.local(
            hosts=2,
            memory="64MiB",
            log_level="debug",
            host_options=[
                {"set": {"coordinator.address": f"{ELSEWHERE}:{to_coordinator.target}"}}
                for _ in range(2)
            ],
            coordinator_options={"listen.port": to_coordinator.target},
            lab_options={
                "listen.port": to_lab.target,
                "listen.public-address": ELSEWHERE,
            },
        )
        out = hidden / f"c-{CANARY}.npy"
        xyzzyCANARYplugh = matrix.T.copy()
        self.job = self.lab.submit(
            "matmul", a=hidden / f"a-{CANARY}.npy", b=xyzzyCANARYplugh, out=out
        )
        result = self.job.result(30)
        assert result.shape == (900, 900)
        # A job that fails has a message; that stays here, too.
        (hidden / "short.raw").write_bytes(b"1234")
        short = gg.RawFile(hidden / "short.raw", (700, 5), "float32")
        with pytest.raises(gg.GoblinError, match=CANARY):
            self.lab.matmul(matrix, short)

    def close(self) -> None:
        self.lab.close()
        for relay in self.relays:
            relay.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("privacy"))
    yield scene
    scene.close()


def files_of(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def memory_of(pid: int) -> Iterator[bytes]:
    """Every readable piece of a process."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
            for line in maps:
                where, access = line.split()[:2]
                if not access.startswith("r") or "[v" in line:
                    continue
                start, end = (int(part, 16) for part in where.split("-"))
                memory.seek(start)
                try:
                    yield memory.read(end - start)
                except OSError:  # a file that ends earlier
                    continue
    except PermissionError:
        pytest.skip("this user may not read the memory of other processes")


def test_traffic(scene: Scene) -> None:
    to_coordinator, to_lab = scene.relays
    assert len(to_coordinator.captured) > 1000
    # All inputs went through here, thus the relays do see what hosts see.
    assert len(to_lab.captured) > 900 * 700 * 4
    for relay in scene.relays:
        assert not found_in(bytes(relay.captured))
        assert PATTERN.tobytes() not in relay.captured, "it is encrypted"
        assert b"matmul" not in relay.captured


def test_disks_and_logs_of_hosts_and_coordinator(scene: Scene) -> None:
    network = scene.lab.network
    seen = 0
    for daemon in [*network.hosts, network.coordinator]:
        files = files_of(daemon.directory)
        assert any(path.suffix == ".log" and data for path, data in files.items())
        for path, data in files.items():
            assert not found_in(str(path.relative_to(daemon.directory)).encode()), path
            assert not found_in(data), path
            seen += PATTERN.tobytes() in data
    assert seen >= 1, "the search would find the numbers, which hosts do hold"
    # The lab node keeps the paths, so this search does find what is there.
    assert any(found_in(data) for data in files_of(network.lab.directory).values())


def test_memory_of_hosts_and_coordinator(scene: Scene) -> None:
    """Stronger than a look at decoded messages: no byte of it was ever left behind."""
    network = scene.lab.network
    assert any(found_in(piece) for piece in memory_of(network.lab.pid))
    for daemon in [*network.hosts, network.coordinator]:
        pids = [daemon.pid]
        for thread in Path(f"/proc/{daemon.pid}/task").glob("*/children"):
            pids += [int(word) for word in thread.read_text().split()]
        for pid in pids:
            assert not any(found_in(piece) for piece in memory_of(pid)), (daemon.name, pid)


def test_what_the_lab_node_says_about_hosts_has_no_canary(scene: Scene) -> None:
    explained = scene.job.explain()
    assert CANARY not in f"{explained.hosts} {explained.incidents}"
    # The researcher's own words come back to the researcher alone: where the output went.
    named = [line for line in str(explained).splitlines() if CANARY in line]
    assert len(named) == 1
    assert "output 'c' is in" in named[0]
    assert CANARY not in str(scene.lab.hosts())
