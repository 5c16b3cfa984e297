# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A coordinator in an intruder's hands, against real hosts and lab nodes: cases 1 to 16 of
docs/security.md that need daemons (tests/core/trust has the others)."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import e2e
import numpy as np
import pytest
from test_e2e_kinds import FAULTY, vector

import gpugoblin as gg

pytestmark = pytest.mark.timeout(120)

TEN_YEARS = 10 * 365 * 86_400


class Intruder:
    """Serves `directory` in the place of a local network's coordinator, unlooked at."""

    def __init__(self, lab: gg.LocalLab, directory: Path) -> None:
        self.lab = lab
        self.directory = directory
        self.state = Path(lab.network.coordinator.directory)
        self.published = self.state / "catalogue"

    def copy(self) -> None:
        """Takes what is published now, for serving it later."""
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.copytree(self.published, self.directory)
        (self.directory / "blobs").mkdir()
        for file in [*self.directory.glob("targets-*"), *self.directory.glob("plugins/*")]:
            shutil.copy(file, self.blob(file.read_bytes()))

    def blob(self, content: bytes) -> Path:
        return self.directory / "blobs" / hashlib.sha256(content).hexdigest()

    def plugin(self, library: Path) -> Path:
        """What is served as that library."""
        return self.blob(library.read_bytes())

    def take_over(self) -> None:
        """The same machine, key and port; another program."""
        coordinator = self.lab.network.coordinator
        coordinator.kill()
        coordinator._command[0] = str(e2e.LYING_COORDINATOR)
        coordinator._values["lie.directory"] = self.directory
        coordinator.launch()
        coordinator.await_ready()
        self.tell()

    def give_back(self) -> None:
        coordinator = self.lab.network.coordinator
        coordinator.kill()
        coordinator._command[0] = e2e.goblin()
        del coordinator._values["lie.directory"]
        coordinator.launch()
        coordinator.await_ready()

    def tell(self) -> None:
        """News for everybody who is connected."""
        coordinator = self.lab.network.coordinator
        answer = subprocess.run(
            [e2e.goblin(), "coordinator", "reload", "--socket", coordinator.socket],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr

    def forge(self, what: str, **options: Any) -> Path:
        """Metadata signed by the network's throw-away keys that no honest command would sign."""
        key = {
            "targets": e2e.keys(self.lab) / "targets.secret",
            "timestamp": self.state / "timestamp.secret",
        }[what]
        out = self.directory / ("timestamp.signed" if what == "timestamp" else "targets.forged")
        given = {"out": out, "key": key, "root": e2e.keys(self.lab) / "root-1.signed", **options}
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        answer = subprocess.run(
            [e2e.LYING_COORDINATOR, "forge", what, *words],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        if what == "targets":
            shutil.copy(out, self.blob(out.read_bytes()))
        return out

    def publish_forged(self, library: Path, **facts: Any) -> None:
        """Targets that list the library with these facts, and a timestamp for them."""
        entry = {"version": 9, "name": "faulty", "library": library, "kind": "faulty", "abi": "1.0"}
        targets = self.forge("targets", **{**entry, **facts})
        now = int(time.time())
        self.forge("timestamp", version=99, targets=targets, issued=now - 1, expires=now + 86_400)
        shutil.copy(library, self.plugin(library))


@pytest.fixture
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, memory="64MiB", plugins=[FAULTY]) as lab:
        yield lab


@pytest.fixture
def intruder(lab: gg.LocalLab, tmp_path: Path) -> Intruder:
    intruder = Intruder(lab, tmp_path / "served")
    intruder.copy()
    return intruder


def honest(lab: gg.LocalLab) -> None:
    x = vector()
    np.testing.assert_array_equal(lab.submit("faulty", x=x, policy="algebraic").result(40), 2 * x)


def trouble(daemon: Any, words: str) -> None:
    """Waits until a daemon says so of the catalogue."""
    e2e.until(
        f"{daemon.name} says: {words}",
        lambda: words in e2e.status(daemon).get("catalogue trouble", ""),
    )


def catalogue(daemon: Any) -> str:
    return e2e.status(daemon)["catalogue"]


def reaches(daemon: Any, version: int) -> None:
    """Waits until a daemon has verified that version of the targets."""
    said = f"version {version} "
    e2e.until(f"{daemon.name} has {said}", lambda: said in catalogue(daemon))


def starts_nothing(daemon: Any) -> str:
    """Waits until it begins no tasks; why not."""
    return str(
        e2e.until(
            f"{daemon.name} begins nothing", lambda: e2e.status(daemon).get("no new tasks because")
        )
    )


def daemons(lab: gg.LocalLab) -> list[Any]:
    return [*lab.network.hosts, lab.network.lab]


def test_what_was_withdrawn_is_not_taken_back(lab: gg.LocalLab, intruder: Intruder) -> None:
    """Cases 1 and 6: an old timestamp with its old targets."""
    e2e.plugin(lab, "revoke", "faulty", "--key", e2e.keys(lab) / "targets.secret")
    for daemon in daemons(lab):
        reaches(daemon, 2)
    intruder.take_over()
    for daemon in daemons(lab):
        trouble(daemon, "timestamp version 1 was served, but this computer has seen version 2")
        assert "version 2 " in catalogue(daemon)
        daemon.restart()  # nor after a restart
        trouble(daemon, "has seen version 2")
    with pytest.raises(gg.NotFoundError, match="faulty"):
        lab.submit("faulty", x=vector())
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(lab.matmul(a, a.T), a @ a.T)


def test_a_frozen_network_begins_no_tasks_once_its_timestamp_expired(
    lab: gg.LocalLab, intruder: Intruder
) -> None:
    """Case 2: news is held back, so the last timestamp runs out."""
    honest(lab)
    now = int(time.time())
    (targets,) = intruder.directory.glob("targets-*")
    # So short that it is over soon, so long that it is verified before.
    intruder.forge("timestamp", version=50, targets=targets, issued=now - 5, expires=now + 6)
    intruder.take_over()
    for daemon in daemons(lab):
        assert "expired at" in starts_nothing(daemon)
    host = lab.network.hosts[0]
    e2e.until("it offers nothing", lambda: e2e.status(host)["state"] == "not ready")
    assert "expired at" in e2e.status(host)["idle because"]
    with pytest.raises(gg.UnavailableError, match="expired at"):
        lab.submit("faulty", x=vector())
    # News that reaches them mends it.
    intruder.give_back()
    e2e.plugin(lab, "publish", FAULTY, "--installed", "--key", e2e.keys(lab) / "targets.secret")
    now = int(time.time())
    newest = sorted(intruder.published.glob("targets-*"))[-1]
    shutil.copytree(intruder.published, intruder.directory, dirs_exist_ok=True)
    shutil.copy(newest, intruder.blob(newest.read_bytes()))
    intruder.forge("timestamp", version=51, targets=newest, issued=now - 5, expires=now + 3600)
    intruder.take_over()
    e2e.until("the host is ready", lambda: e2e.status(host)["state"] == "ready")
    e2e.until("and the lab node", lambda: "no new tasks because" not in e2e.status(lab.network.lab))
    honest(lab)


@pytest.mark.parametrize("how", ["flipped", "short", "long", "endless"])
def test_a_plugin_of_other_bytes_is_not_used(
    lab: gg.LocalLab, intruder: Intruder, how: str
) -> None:
    """Case 10, and a plugin that never ends."""
    served = intruder.plugin(FAULTY)
    good = served.read_bytes()
    if how == "endless":
        os.truncate(served, 1 << 40)
    else:
        middle = len(good) // 2
        flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
        served.write_bytes({"flipped": flipped, "short": good[:-1], "long": good + b"\0"}[how])
    intruder.take_over()
    says = r"SHA-256|digest|hash" if how == "flipped" else r"serves \d+ bytes, but \d+ were signed"
    with pytest.raises(gg.CorruptError, match=says):
        lab.submit("faulty", x=vector())
    served.write_bytes(good)
    honest(lab)


def test_metadata_of_any_length_costs_no_memory(lab: gg.LocalLab, intruder: Intruder) -> None:
    """Case 11: a timestamp longer than may be, then targets of 1 GiB."""
    good = (intruder.directory / "timestamp.signed").read_bytes()
    (intruder.directory / "timestamp.signed").write_bytes(good + bytes(60_000 - len(good)))
    intruder.take_over()
    for daemon in daemons(lab):
        trouble(daemon, "60000 bytes, at most 8192 may come")
    now = int(time.time())
    targets = intruder.forge(
        "targets", version=2, name="faulty", library=FAULTY, kind="faulty", abi="1.0"
    )
    intruder.forge("timestamp", version=9, targets=targets, issued=now - 1, expires=now + 3600)
    with intruder.blob(targets.read_bytes()).open("r+b") as file:
        file.truncate(1 << 30)
    before = {daemon.name: peak(daemon) for daemon in daemons(lab)}
    intruder.tell()
    for daemon in daemons(lab):
        trouble(daemon, "the coordinator serves 1073741824 bytes")
        assert peak(daemon) - before[daemon.name] < 64 << 20
    # Other bytes of the right length.
    intruder.blob(targets.read_bytes()).write_bytes(bytes(targets.stat().st_size))
    intruder.tell()
    for daemon in daemons(lab):
        trouble(daemon, "was named by the timestamp")
    honest(lab)


def peak(daemon: Any) -> int:
    """Most bytes of memory that it ever had."""
    text = Path(f"/proc/{daemon.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) << 10


def test_a_clock_that_was_set_back_is_noticed(tmp_path: Path) -> None:
    """Case 13: ten years."""
    host = {"program": e2e.LIAR, "set": {"liar.mode": "tile", "liar.rate": 0}}
    with gg.local(hosts=1, memory="64MiB", plugins=[FAULTY], host_options=[host]) as lab:
        honest(lab)
        daemon = lab.network.hosts[0]
        daemon.kill()
        daemon._values["liar.clock-behind"] = TEN_YEARS
        daemon.restart()
        assert "it was set back" in starts_nothing(daemon)
        assert e2e.status(daemon)["state"] == "not ready"
        job = lab.submit("faulty", x=vector(), policy="algebraic")
        del daemon._values["liar.clock-behind"]
        daemon.restart()
        np.testing.assert_array_equal(job.result(40), 2 * vector())


def test_a_crash_between_metadata_and_plugin(lab: gg.LocalLab, intruder: Intruder) -> None:
    """Case 14: whoever has the one and not the other goes on where it was."""
    served = intruder.plugin(FAULTY)
    aside = served.with_suffix(".aside")
    served.rename(aside)
    for daemon in daemons(lab):
        shutil.rmtree(daemon.directory / "plugins")
        daemon.kill()
    intruder.take_over()
    for daemon in [lab.network.lab, *lab.network.hosts]:
        daemon.restart()
        reaches(daemon, 1)
    with pytest.raises(gg.NotFoundError):
        lab.submit("faulty", x=vector())
    for daemon in daemons(lab):
        daemon.kill()
    aside.rename(served)
    for daemon in [lab.network.lab, *lab.network.hosts]:
        daemon.restart()
    honest(lab)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"abi": "99.0"}, r"built for ABI 99\.0; this side has ABI 1\.\d+: upgrade GPU Goblin"),
        ({"backend": "cuda"}, "runs on the backends cuda; this side has cpu"),
        ({"release": 99 << 16}, r"needs GPU Goblin 99\.0\.0"),
    ],
)
def test_what_cannot_run_here_is_not_even_fetched(
    lab: gg.LocalLab, intruder: Intruder, facts: dict[str, Any], says: str
) -> None:
    """Case 15: wrong backend, ABI or release, told from signed metadata."""
    intruder.publish_forged(FAULTY, **facts)
    intruder.plugin(FAULTY).unlink()  # so it could not come
    intruder.take_over()
    for daemon in daemons(lab):
        reaches(daemon, 9)
        assert "refuses plugin faulty" in e2e.status(daemon)
    with pytest.raises(gg.UnsupportedError, match=says):
        lab.submit("faulty", x=vector())


def test_a_truncated_library_that_was_signed_harms_nobody(
    lab: gg.LocalLab, intruder: Intruder, tmp_path: Path
) -> None:
    """Case 16: only runners load it, and they look first."""
    cut = tmp_path / "cut.so"
    cut.write_bytes(FAULTY.read_bytes()[: FAULTY.stat().st_size // 2])
    intruder.publish_forged(cut)
    intruder.take_over()
    pids = [daemon.pid for daemon in daemons(lab)]
    e2e.until("the lab node has the news", lambda: "version 9 " in catalogue(lab.network.lab))
    with pytest.raises(gg.CorruptError, match=r"cut short|truncated|damaged"):
        lab.submit("faulty", x=vector())
    assert [daemon.pid for daemon in daemons(lab)] == pids


def test_other_keys_make_no_news(lab: gg.LocalLab, intruder: Intruder, tmp_path: Path) -> None:
    """Cases 3, 8 and 9: whoever has only the coordinator's keys publishes nothing."""
    targets = intruder.state / "forged"
    stolen = {"key": intruder.state / "timestamp.secret", "out": targets}
    entry = {"version": 9, "name": "x", "library": FAULTY, "kind": "x", "abi": "1.0"}
    with pytest.raises(AssertionError, match="is no targets key"):
        intruder.forge("targets", **{**entry, **stolen})
    # Signed by another network's targets key instead.
    other = tmp_path / "other"
    answer = subprocess.run(
        [e2e.goblin(), "plugin", "keys", "init", other, "--no-passphrase", "--state-dir",
         tmp_path / "state", "--config", os.devnull],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    mine = {"key": other / "targets.secret", "root": other / "root-1.signed"}
    forged = intruder.forge("targets", **{**entry, **mine})
    now = int(time.time())
    intruder.forge("timestamp", version=99, targets=forged, issued=now - 1, expires=now + 3600)
    intruder.take_over()
    for daemon in daemons(lab):
        trouble(daemon, "signed by 0 of the 1 keys")
        assert "version 1 " in catalogue(daemon)
    honest(lab)
