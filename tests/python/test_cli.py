# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The `goblin` command beside running daemons."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import e2e
import pytest

import gpugoblin as gg
from gpugoblin import _programs


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, threads=1, memory="128MiB") as lab:
        yield lab


def goblin(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_programs.find(), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_daemon_of_another_role_is_no_answer(lab: gg.LocalLab) -> None:
    sockets = {"lab": lab.network.lab.socket, "host": lab.network.hosts[0].socket}
    for role, other in (("host", "lab"), ("lab", "host"), ("coordinator", "lab")):
        answer = goblin(role, "status", "--socket", sockets[other])
        assert answer.returncode == 2
        names = {"lab": "lab node"}
        expected = f"a {names.get(other, other)}, not a {names.get(role, role)}, answers at"
        assert expected in answer.stderr
        assert f"`goblin {other}`" in answer.stderr
        assert not answer.stdout
    for role, socket in sockets.items():
        answer = goblin(role, "status", "--socket", socket)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout


def test_stopping_needs_the_right_role(lab: gg.LocalLab) -> None:
    host = lab.network.hosts[0]
    assert goblin("coordinator", "stop", "--socket", host.socket).returncode == 2
    assert goblin("host", "status", "--socket", host.socket).returncode == 0


def test_a_coordinator_without_a_name_is_refused_before_anything_starts(tmp_path: Path) -> None:
    answer = goblin(
        "host", "run", "--state-dir", tmp_path / "state",
        "--set", "coordinator.address=:7420", "--set", "coordinator.pin=" + "a" * 64,
    )  # fmt: skip
    assert answer.returncode == 2
    assert "coordinator.address = ':7420' has no name before the port" in answer.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "words",
    [
        "",
        "nothing",
        "lab",
        "lab status --nope",
        "lab status --socket",
        "lab explain",
        "lab explain seven",
        "lab explain 7 8",
        "lab run --ready-fd x",
        "plugin info",
        "plugin check",
        "plugin check --seed x",
        "pin",
    ],
)
def test_a_wrong_command_line_ends_with_2(words: str) -> None:
    answer = goblin(*words.split())
    assert answer.returncode == 2
    assert answer.stderr
    assert not answer.stdout


@pytest.mark.parametrize("words", ["--help", "--version", "lab --help", "plugin check --help"])
def test_help_is_no_mistake(words: str) -> None:
    answer = goblin(*words.split())
    assert answer.returncode == 0
    assert answer.stdout
    assert not answer.stderr


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of one that runs."""
    state = tmp_path_factory.mktemp("coordinator") / "state"
    ready, write = os.pipe()
    command = [
        str(_programs.find()), "coordinator", "run", "--config", os.devnull,
        "--state-dir", str(state),
        "--ready-fd", str(write), "--set", "listen.address=127.0.0.1", "--set", "listen.port=0",
    ]  # fmt: skip
    with subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL) as process:
        os.close(write)
        with os.fdopen(ready) as pipe:
            assert pipe.readline()
        yield state
        process.terminate()


PLAIN = e2e.TEST_PLUGINS / "plain.so"


def installed() -> dict[str, Any]:
    """The installed plugin that has matmul/1."""
    answer = goblin("plugin", "info", "--installed", "--json")
    assert answer.returncode == 0, answer.stderr
    (one,) = (one for one in json.loads(answer.stdout) if "matmul/1" in one["kinds"])
    return dict(one)


def test_a_plugin_cannot_take_an_installed_kind_of_a_local_network(tmp_path: Path) -> None:
    other = tmp_path / "matmul.so"
    # A byte after the end: the same note under another hash.
    other.write_bytes(Path(installed()["file"]).read_bytes() + b"\0")
    with pytest.raises(gg.InvalidArgumentError, match=r"plugins\[0\]: .*matmul/1.*installed"):
        gg.local(hosts=1, plugins=[other], directory=tmp_path / "network")
    assert not (tmp_path / "network").exists()
    with gg.local(hosts=1, memory="64MiB", plugins=[other], installed_plugins=False) as lab:
        digest = hashlib.sha256(other.read_bytes()).hexdigest()
        assert [kind.plugin for kind in lab.kinds()] == [digest]


@pytest.mark.parametrize("words", [["list"], ["publish", PLAIN], ["revoke", "plain"]])
def test_no_coordinator_is_made_by_accident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str | Path]
) -> None:
    config = tmp_path / "coordinator.toml"
    config.touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "nowhere"))
    if os.geteuid() == 0 and Path("/var/lib/gpugoblin/coordinator").exists():
        pytest.skip("this machine has a coordinator")
    answer = goblin("plugin", *words, "--config", config)
    assert answer.returncode == 1
    assert re.search("no published root|no root is published", answer.stderr)
    assert "goblin plugin keys init" in answer.stderr
    assert not (tmp_path / "nowhere").exists()
    assert not Path("/var/lib/gpugoblin/coordinator").exists()


def test_a_command_that_is_missing_or_unknown_is_told_which_there_are() -> None:
    for words, name, says in (
        ([], "lab", "goblin: say what to do: `goblin COMMAND`"),
        (["hsot"], "host", "goblin: `goblin` has no command 'hsot'; did you mean 'host'?"),
        (["host"], "finish", "goblin: say what to do: `goblin host COMMAND`"),
        (["host", "stauts"], "status", "no command 'stauts'; did you mean 'status'?"),
        (["plugin", "xyzzy", "list"], "revoke", "`goblin plugin` has no command 'xyzzy'\n"),
    ):
        answer = goblin(*words)
        assert answer.returncode == 2
        assert says in answer.stderr
        names = {line.split()[0] for line in answer.stderr.splitlines() if line.startswith("  ")}
        assert name in names
        assert not answer.stdout


def test_help_names_the_program_as_one_calls_it() -> None:
    answer = goblin("host", "run", "--help")
    assert "Usage: goblin host run" in answer.stdout


def test_a_pin_is_made_only_when_asked_for(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    answer = goblin("pin", wrong)
    assert answer.returncode == 1
    assert f"'{wrong}' holds no key" in answer.stderr
    assert "--create" in answer.stderr
    assert not wrong.exists()
    made = goblin("pin", "--create", wrong)
    assert made.returncode == 0, made.stderr
    assert re.fullmatch(r"[0-9a-f]{64}\n", made.stdout)
    assert wrong.stat().st_mode & 0o777 == 0o700
    assert goblin("pin", wrong).stdout == made.stdout
    assert goblin("pin", "--create", wrong).stdout == made.stdout
    inside = goblin("pin", wrong / "identity")
    assert inside.returncode == 1
    assert "the directory above it" in inside.stderr


def test_missing_settings_name_the_file_that_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    users = tmp_path / "config/gpugoblin/host.toml"
    root = os.geteuid() == 0
    place = Path("/etc/gpugoblin/host.toml") if root else users
    if place.exists():
        pytest.skip("this machine is a host")
    answer = goblin("host", "run", "--state-dir", tmp_path / "state")
    assert answer.returncode == 2
    assert "coordinator.address is missing" in answer.stderr
    assert answer.stderr.endswith(f"no configuration file: {place} does not exist\n")
    users.parent.mkdir(parents=True)
    users.write_text("threads = 1\n")
    answer = goblin("host", "config-check", "--state-dir", tmp_path / "state")
    assert answer.returncode == 2
    first = answer.stdout.splitlines()[0]
    if root:
        assert f"{place} does not exist ({users} does, but is not root's" in first
        assert first.removeprefix("# ") in answer.stderr
    else:
        assert first == f"# configuration file: {users}"
    answer = goblin("host", "run", "--state-dir", tmp_path / "state", "--config", users)
    assert answer.stderr.endswith(f"configuration file: {users}\n")
    assert not (tmp_path / "state").exists()


def test_a_setting_where_a_table_is_expected(tmp_path: Path) -> None:
    config = tmp_path / "host.toml"
    config.write_text('coordinator = "x:1"\n')
    answer = goblin("host", "config-check", "--config", config)
    assert answer.returncode == 2
    assert (
        f"{config}:1: 'coordinator' is a table; write [coordinator] and below it "
        "address = …, pin = …" in answer.stderr
    )
    answer = goblin("host", "config-check", "--config", os.devnull, "--set", "coordinator=x:1")
    assert "'coordinator' is a table; set one of coordinator.address = …" in answer.stderr


def test_too_many_threads_are_named_once() -> None:
    answer = goblin("host", "config-check", "--config", os.devnull, "--set", "threads=4000")
    assert "threads = '4000' is more than this machine's processors" in answer.stderr
    assert answer.stderr.count("4000") == 1


def test_one_daemon_a_state_directory(coordinator: Path) -> None:
    answer = goblin(
        "coordinator", "run", "--config", os.devnull, "--state-dir", coordinator,
        "--set", "listen.port=0", "--socket", coordinator / "other.sock",
    )  # fmt: skip
    assert answer.returncode == 1
    assert f"a coordinator already runs here (state directory '{coordinator}')" in answer.stderr
    assert "`goblin coordinator stop`" in answer.stderr


@pytest.mark.parametrize("command", ["stop", "finish"])
def test_a_host_says_that_it_has_ended_and_names_an_address_once(
    tmp_path: Path, command: str
) -> None:
    state = tmp_path / "state"
    ready, write = os.pipe()
    words = [
        str(_programs.find()), "host", "run", "--config", os.devnull, "--state-dir", str(state),
        "--ready-fd", str(write), "--set", "coordinator.address=127.0.0.1:1",
        "--set", "coordinator.pin=" + "a" * 64, "--set", f"trust.root={e2e.some_root()}",
    ]  # fmt: skip
    with subprocess.Popen(words, pass_fds=[write], stderr=subprocess.DEVNULL) as process:
        os.close(write)
        with os.fdopen(ready) as pipe:
            assert pipe.readline()
        log = state / "host.log"
        e2e.until("it has tried to connect", lambda: "cannot connect" in log.read_text())
        assert goblin("host", command, "--state-dir", state).returncode == 0
        assert process.wait(30) == 0
    text = log.read_text()
    assert text.splitlines()[-1].endswith(" ended")
    (first, *_) = (line for line in text.splitlines() if "cannot connect" in line)
    assert first.count("127.0.0.1") == 1
