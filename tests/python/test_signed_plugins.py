# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Signing, publishing, revoking, rotating: the commands, and what a running network does then."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import e2e
import numpy as np
import pytest
from test_e2e_kinds import FAULTY, mode, vector

import gpugoblin as gg

pytestmark = pytest.mark.timeout(120)

PLAIN, OTHER = e2e.TEST_PLUGINS / "plain.so", e2e.TEST_PLUGINS / "no-recall.so"  # both plain/1


Words = list[str | Path]


def goblin(*words: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [e2e.goblin(), *map(str, words)],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=60,
        check=False,
    )


def plugin(state: Path, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """`goblin plugin WORDS…` about the coordinator with that state."""
    answer = goblin("plugin", *words, "--config", os.devnull, "--state-dir", state)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer


def listed(state: Path) -> dict[str, Any]:
    return dict(json.loads(plugin(state, "list", "--json").stdout))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def key_id(path: Path) -> str:
    return goblin("plugin", "keys", "show", path).stdout.split()[0]


def test_one_person_publishes_replaces_and_revokes(tmp_path: Path) -> None:
    state, keys = tmp_path / "state", tmp_path / "keys"
    plugin(state, "keys", "init", keys, "--no-passphrase", "--plugin", PLAIN)
    for name in ("root.secret", "targets.secret"):
        assert (keys / name).stat().st_mode & 0o777 == 0o600
    told = listed(state)
    assert told["targets"]["signers"] == [key_id(keys / "targets.public")]
    assert told["timestamp"]["targets"] == 1
    (one,) = told["plugins"]
    assert (one["name"], one["plugin"], one["kinds"]) == ("plain", digest(PLAIN), ["plain/1"])
    key: Words = ["--key", keys / "targets.secret"]
    # The same kind in another file: only when it is asked for.
    refused = plugin(state, "publish", OTHER, *key, code=2)
    assert "plain/1" in refused.stderr
    assert "--replace" in refused.stderr
    plugin(state, "publish", OTHER, "--replace", *key)
    # A new build under the old name replaces without a word.
    edited = tmp_path / "no-recall.so"
    edited.write_bytes(OTHER.read_bytes() + b"\0")
    plugin(state, "publish", edited, *key)
    assert [one["plugin"] for one in listed(state)["plugins"]] == [digest(edited)]
    assert "list no plugin 'nothing'" in plugin(state, "revoke", "nothing", *key, code=1).stderr
    plugin(state, "revoke", "no-recall", *key)
    told = listed(state)
    assert told["plugins"] == []
    assert told["timestamp"]["targets"] == told["targets"]["version"] == 4
    assert "has a root already" in plugin(state, "keys", "init", keys, code=2).stderr


def test_what_is_no_plugin_is_not_signed(tmp_path: Path) -> None:
    state, keys = tmp_path / "state", tmp_path / "keys"
    plugin(state, "keys", "init", keys, "--no-passphrase")
    text = tmp_path / "text.so"
    text.write_text("no library")
    cut = tmp_path / "cut.so"
    cut.write_bytes(PLAIN.read_bytes()[: PLAIN.stat().st_size // 2])
    names = ("no-kinds.so", "newer-major.so", "duplicate-kinds.so")
    bad = [text, cut, *(e2e.TEST_PLUGINS / name for name in names)]
    for file in bad:
        key: Words = ["--key", keys / "targets.secret"]
        answer = goblin(
            "plugin", "publish", file, *key, "--config", os.devnull, "--state-dir", state
        )
        assert answer.returncode != 0
        assert str(file) in answer.stderr
    assert not list((state / "catalogue/plugins").iterdir())
    answer = plugin(state, "publish", PLAIN, code=2)
    assert "--key" in answer.stderr
    answer = plugin(state, "publish", PLAIN, "--key", keys / "root.secret", code=2)
    assert "is no targets key" in answer.stderr


def test_two_of_three_sign_one_after_the_other(tmp_path: Path) -> None:
    state = tmp_path / "state"
    make: Words = ["plugin", "keys", "new", "--no-passphrase"]
    names = [f"{role}{n}" for role in ("root", "targets") for n in (1, 2, 3)]
    assert goblin(*make, *(tmp_path / name for name in names)).returncode == 0
    secret = {name: tmp_path / f"{name}.secret" for name in names}
    public = {name: tmp_path / f"{name}.public" for name in names}
    root = tmp_path / "root.signed"
    # The coordinator makes its own key when it starts; here nobody has started it yet.
    state.mkdir()
    assert goblin(*make, state / "timestamp").returncode == 0
    adds: Words = []
    for name in names:
        adds += [f"--add-{name[:-1]}", public[name]]
    made = plugin(
        state, "keys", "root", "--out", root, *adds, "--add-timestamp", state / "timestamp.public",
        "--key", secret["root1"],
    )  # fmt: skip
    assert "1 of 2 signatures: not enough" in made.stdout
    assert f"missing  {key_id(public['root2'])}" in made.stdout
    assert "signed by 1 of the 2 keys" in plugin(state, "publish", root, code=1).stderr
    signed = plugin(state, "sign", root, "--key", secret["root3"])
    assert "2 of 2 signatures, enough" in signed.stdout
    plugin(state, "publish", root)
    # Targets: prepared by one who has no key, signed by two, compared by one of them.
    targets = tmp_path / "targets.signed"
    plugin(state, "sign", PLAIN, "--out", targets)
    assert plugin(state, "verify", targets, PLAIN, code=1).stdout.count("missing") == 3
    for name in ("targets2", "targets1"):
        early = plugin(state, "publish", targets, PLAIN, code=2)
        assert "not enough" in early.stderr
        plugin(state, "sign", targets, "--key", secret[name])
        plugin(state, "sign", targets, "--key", secret[name])  # once more counts once
    assert (
        "is no targets key"
        in plugin(state, "sign", targets, "--key", secret["root1"], code=2).stderr
    )
    shown = plugin(state, "verify", targets, PLAIN).stdout
    assert digest(PLAIN) in shown
    assert "is plugin plain of the targets" in shown
    assert (
        "which none of the targets files" in plugin(state, "verify", targets, OTHER, code=1).stderr
    )
    assert "name it, too" in plugin(state, "publish", targets, code=1).stderr
    plugin(state, "publish", targets, PLAIN)
    assert len(listed(state)["targets"]["signers"]) == 2
    # One alone revokes nothing either.
    alone = plugin(state, "revoke", "plain", "--key", secret["targets3"], code=2)
    assert "1 of 2 signatures" in alone.stderr
    assert [one["name"] for one in listed(state)["plugins"]] == ["plain"]
    # Bytes that were changed on their way are no signature.
    spoilt = bytearray(targets.read_bytes())
    spoilt[-1] ^= 1
    targets.write_bytes(bytes(spoilt))
    assert "does not hold" in plugin(state, "verify", targets, code=1).stderr


def test_passphrases_come_by_a_descriptor_and_never_by_argument(tmp_path: Path) -> None:
    name = tmp_path / "key"
    answer = goblin("plugin", "keys", "new", name, "--passphrase-fd", "0", stdin="open sesame\n")
    assert answer.returncode == 0, answer.stderr
    text = (tmp_path / "key.secret").read_text()
    assert "argon2id" in text
    state, keys = tmp_path / "state", tmp_path / "keys"
    plugin(state, "keys", "init", keys, "--no-passphrase")
    root2: Words = [
        "plugin", "keys", "root", "--add-targets", tmp_path / "key.public", "--out",
        tmp_path / "2.signed", "--key", keys / "root.secret", "--config", os.devnull,
        "--state-dir", state,
    ]  # fmt: skip
    assert goblin(*root2).returncode == 0
    plugin(state, "publish", tmp_path / "2.signed")
    sign: Words = [
        "plugin", "sign", PLAIN, "--out", tmp_path / "t.signed", "--key", tmp_path / "key.secret",
        "--passphrase-fd", "0", "--config", os.devnull, "--state-dir", state,
    ]  # fmt: skip
    wrong = goblin(*sign, stdin="wrong\n")
    assert wrong.returncode == 2
    assert "passphrase" in wrong.stderr
    assert not (tmp_path / "t.signed").exists()
    right = goblin(*sign, stdin="open sesame\n")
    assert right.returncode == 0, right.stderr
    empty = goblin("plugin", "keys", "new", tmp_path / "k2", "--passphrase-fd", "0", stdin="\n")
    assert empty.returncode == 2
    assert not (tmp_path / "k2.secret").exists()


@pytest.fixture
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, memory="64MiB", plugins=[FAULTY]) as lab:
        yield lab


def honest(lab: gg.LocalLab) -> None:
    x = vector()
    np.testing.assert_array_equal(lab.submit("faulty", x=x, policy="algebraic").result(30), 2 * x)


def runners(daemon: Any) -> list[str]:
    """Command lines of a daemon's children."""
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
    found = []
    for pid in children:
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:
            continue
    return found


def test_revocation_stops_what_runs(lab: gg.LocalLab) -> None:
    honest(lab)
    host = lab.network.hosts[0]
    hanging = lab.submit("faulty", x=vector(), mode=mode("kExecuteHang"), policy="algebraic")
    e2e.until("a task runs", lambda: int(e2e.status(host)["leases"]) > 0)
    e2e.until("its runner is there", lambda: runners(host))
    key = e2e.keys(lab) / "targets.secret"
    e2e.plugin(lab, "revoke", "faulty", "--key", key)
    with pytest.raises(gg.JobFailedError, match=r"plugin of faulty/1 .* was revoked"):
        hanging.result(30)
    e2e.until("the host has nothing of it", lambda: e2e.status(host)["leases"] == "0")
    e2e.until("its runner is ended", lambda: not runners(host))
    e2e.until("nor has the lab node", lambda: not runners(lab.network.lab))
    with pytest.raises(gg.NotFoundError, match="faulty"):
        lab.submit("faulty", x=vector())
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(lab.matmul(a, a.T), a @ a.T)
    # A restart does not bring it back; publishing does.
    lab.network.hosts[0].restart()
    lab.network.lab.restart()
    with pytest.raises(gg.NotFoundError, match="faulty"):
        lab.submit("faulty", x=vector())
    e2e.plugin(lab, "publish", FAULTY, "--key", key)
    for daemon in (lab.network.lab, host):
        follows(daemon, "version 3 ")
    honest(lab)


def follows(daemon: Any, words: str) -> None:
    """Waits until a daemon says so of its catalogue."""
    e2e.until(f"{daemon.name}: {words}", lambda: words in e2e.status(daemon)["catalogue"])


def test_an_earlier_build_may_stay_beside_the_new_one(lab: gg.LocalLab, tmp_path: Path) -> None:
    honest(lab)
    running = lab.submit("faulty", x=vector(), mode=mode("kExecuteHang"), policy="algebraic")
    host = lab.network.hosts[0]
    e2e.until("a task runs", lambda: int(e2e.status(host)["leases"]) > 0)
    newer = tmp_path / "faulty.so"
    newer.write_bytes(FAULTY.read_bytes() + b"\0")
    key: Words = ["--key", e2e.keys(lab) / "targets.secret"]
    e2e.plugin(lab, "publish", newer, "--beside", *key)
    follows(lab.network.lab, "version 2 ")
    # Its job goes on, new ones have the new build.
    (used,) = (kind for kind in lab.kinds() if kind.name == "faulty")
    assert used.plugin == digest(newer)
    assert not running.done
    e2e.plugin(lab, "revoke", "faulty", *key)
    with pytest.raises(gg.JobFailedError, match="was revoked"):
        running.result(30)
    honest(lab)


def test_keys_are_rotated_while_the_network_runs(lab: gg.LocalLab, tmp_path: Path) -> None:
    honest(lab)
    keys = e2e.keys(lab)
    new = tmp_path / "new"
    assert (
        goblin("plugin", "keys", "new", new, tmp_path / "root2", "--no-passphrase").returncode == 0
    )
    root2 = tmp_path / "root-2.signed"
    change: Words = ["--remove", keys / "targets.public", "--add-targets", tmp_path / "new.public"]
    change += ["--remove", keys / "root.public", "--add-root", tmp_path / "root2.public"]
    e2e.plugin(lab, "keys", "root", "--out", root2, *change, "--key", keys / "root.secret")
    # Old root key only: the new one has to sign, too.
    refused = e2e.plugin(lab, "publish", root2, check=False)
    assert refused.returncode != 0
    assert "root version 2" in refused.stderr
    e2e.plugin(lab, "sign", root2, "--key", tmp_path / "root2.secret")
    targets = tmp_path / "targets.signed"
    e2e.plugin(
        lab, "sign", FAULTY, "--installed", "--out", targets, "--key", tmp_path / "new.secret",
        "--root", root2,
    )  # fmt: skip
    e2e.plugin(lab, "publish", root2, targets, FAULTY)
    daemons = [*lab.network.hosts, lab.network.lab]
    for daemon in daemons:
        follows(daemon, "of root version 2")
    honest(lab)
    # What was taken away signs nothing any more.
    old = e2e.plugin(lab, "revoke", "faulty", "--key", keys / "targets.secret", check=False)
    assert old.returncode != 0
    assert "is no targets key of root version 2" in old.stderr
    # A new root without targets that its keys signed is not served: hosts would run nothing.
    third = tmp_path / "third"
    assert goblin("plugin", "keys", "new", third, "--no-passphrase").returncode == 0
    root3 = tmp_path / "root-3.signed"
    change = ["--remove", tmp_path / "new.public", "--add-targets", tmp_path / "third.public"]
    e2e.plugin(lab, "keys", "root", "--out", root3, *change, "--key", tmp_path / "root2.secret")
    held = e2e.plugin(lab, "publish", root3, check=False)
    assert held.returncode != 0
    assert "under root version 3 hosts would run nothing" in held.stderr
    assert "catalogue trouble" not in e2e.status(lab.network.coordinator)
    honest(lab)
    for daemon in daemons:
        daemon.restart()
        assert "of root version 2" in e2e.status(daemon)["catalogue"]
    honest(lab)


def test_volunteers_choose_kinds_and_signers() -> None:
    """What an owner refuses is said, and the lab node does not offer it again and again."""
    choosy = {"set": {"plugins.kinds": "matmul"}}
    distrusting = {"set": {"plugins.signers": "ab" * 32}}
    with gg.local(
        hosts=3, memory="64MiB", plugins=[FAULTY], host_options=[choosy, distrusting]
    ) as lab:
        hosts = lab.network.hosts
        job = lab.submit("faulty", x=vector(), policy="algebraic")
        np.testing.assert_array_equal(job.result(30), 2 * vector())
        assert [host.host for host in job.explain().hosts if host.accepted] == [hosts[2].pin]
        said = e2e.status(hosts[0])
        assert "kind faulty/1 is not among" in said["refuses plugin faulty"]
        assert "refuses plugin matmul" not in said
        assert "has not signed" in e2e.status(hosts[1])["refuses plugin matmul"]
        hosts[2].kill()
        e2e.until("it has gone", lambda: sum(host.connected for host in lab.hosts()) == 2)
        job = lab.submit("faulty", x=vector(), policy="algebraic")
        e2e.until("nobody is left", lambda: "2 that do not run this kind" in str(job.explain()))
        refusals = [item for item in job.explain().incidents if "does not run" in item.what]
        assert len(refusals) == 2
        hosts[2].restart()
        np.testing.assert_array_equal(job.result(30), 2 * vector())


def test_a_network_without_a_root_says_what_to_do(tmp_path: Path) -> None:
    answer = e2e.run_daemon(
        "host", tmp_path / "state", coordinator_address="127.0.0.1:1", coordinator_pin="ab" * 32,
        trust_root="",
    )  # fmt: skip
    assert answer.returncode == 2
    assert "trust.root" in answer.stderr
    assert "operator" in answer.stderr
    wrong = tmp_path / "root.signed"
    wrong.write_text("nothing that was ever signed")
    answer = e2e.run_daemon(
        "host", tmp_path / "state", coordinator_address="127.0.0.1:1", coordinator_pin="ab" * 32,
        trust_root=wrong,
    )  # fmt: skip
    assert answer.returncode != 0
    assert str(wrong) in answer.stderr
    assert "install the root file" in answer.stderr


def doctor(role: str, *words: str | Path) -> list[tuple[str, str, str]]:
    """What `goblin doctor` finds of the signed catalogue: verdict, found, what to do."""
    answer = goblin("doctor", role, "--json", "--config", os.devnull, *words)
    return [
        (one["verdict"], one["found"], one["to_do"])
        for one in json.loads(answer.stdout)
        if one["check"] == "signed catalogue"
    ]


def test_doctor_looks_at_the_catalogue(tmp_path: Path) -> None:
    state, keys = tmp_path / "state", tmp_path / "keys"
    ((verdict, _, to_do),) = doctor("coordinator", "--state-dir", state)
    assert verdict == "FAILED"
    assert "goblin plugin keys init" in to_do
    plugin(state, "keys", "init", keys, "--no-passphrase", "--plugin", PLAIN)
    ((verdict, found, _),) = doctor("coordinator", "--state-dir", state)
    assert (verdict, "targets version 1 with 1 plugins" in found) == ("ok", True)
    plugin(state, "publish", OTHER, "--replace", "--days", "7", "--key", keys / "targets.secret")
    assert [verdict for verdict, *_ in doctor("coordinator", "--state-dir", state)] == [
        "ok",
        "note",
    ]
    (state / "catalogue/plugins" / f"{digest(OTHER)}.so").unlink()
    ((verdict, found, to_do),) = doctor("coordinator", "--state-dir", state)
    assert verdict == "FAILED"
    assert "no-recall" in found
    assert "publish the library again" in to_do
    reach: Words = [
        "--set",
        "coordinator.address=127.0.0.1:1",
        "--set",
        "coordinator.pin=" + "ab" * 32,
    ]
    reach += ["--state-dir", tmp_path / "host"]
    ((verdict, found, _),) = doctor("host", *reach, "--set", f"trust.root={keys}/root-1.signed")
    assert verdict == "ok"
    assert "is root version 1; nothing was verified with it yet" in found
    ((verdict, _, to_do),) = doctor("host", *reach, "--set", f"trust.root={PLAIN}")
    assert verdict == "FAILED"
    assert "operator" in to_do
