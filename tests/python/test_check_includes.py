# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""scripts/check_includes.py finds every kind of violation, and nothing in what is allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from check_includes import Checker, parse_includes  # noqa: E402

# Headers that the planted files include.
WORLD = {
    "sdk/include/goblin/abi/types.h": "#include <stdint.h>\n",
    "sdk/include/goblin/error.hpp": '#include <tl/expected.hpp>\n#include "goblin/abi/types.h"\n',
    "core/net/loop.hpp": '#include <memory>\n#include "goblin/error.hpp"\n',
    "core/net/asio_socket.hpp": "#include <boost/asio/ip/tcp.hpp>\n",
    "core/plugin/note.hpp": "",
    "core/wire/values.hpp": '#include "goblin/error.hpp"\n',
    "backends/common/pack.hpp": "",
    "backends/reference/matmul.hpp": "",
    "backends/cpu/matmul.hpp": "",
    "plugins/matmul/plan.hpp": "",
    "plugins/training/round.hpp": "",
    "hosts/common/config.hpp": "#include <toml++/toml.h>\n",
    "hosts/link/link.hpp": '#include "hosts/common/config.hpp"\n',
    "hosts/lab/jobs.hpp": "",
    "hosts/volunteer/daemon.hpp": "",
}


def problems_of(file: str, text: str) -> list[str]:
    """What the checker says of one file planted among WORLD's."""
    return [str(p) for p in Checker({**WORLD, file: text}).check() if p.file == file]


def test_the_world_itself_is_clean() -> None:
    assert Checker(WORLD).check() == []


@pytest.mark.parametrize(
    ("file", "include", "said"),
    [
        ("sdk/include/goblin/abi/new.h", "<string.h>", "stdint.h and stddef.h only"),
        ("sdk/include/goblin/abi/new.h", "<tl/expected.hpp>", "stdint.h and stddef.h only"),
        ("sdk/include/goblin/abi/new.h", '"goblin/error.hpp"', "may include only"),
        ("sdk/include/goblin/kind.hpp", '"core/net/loop.hpp"', "may include only"),
        ("sdk/include/goblin/kind.hpp", "<sodium.h>", "is libsodium"),
        ("core/store/db.cpp", '"backends/cpu/matmul.hpp"', "may include only"),
        ("core/store/db.cpp", '"hosts/common/config.hpp"', "may include only"),
        ("core/store/db.cpp", '"plugins/matmul/plan.hpp"', "may include only"),
        ("core/store/db.cpp", "<boost/asio.hpp>", "is Asio, which only core/net"),
        ("core/store/db.cpp", "<boost/dll.hpp>", "is Boost.DLL, which only core/plugin"),
        ("core/store/db.cpp", "<openssl/evp.h>", "is OpenSSL, which only core/net"),
        ("core/store/db.cpp", "<capnp/serialize.h>", "is Cap'n Proto, which only core/wire"),
        ("core/store/db.cpp", '"core/wire/schema.capnp.h"', "is Cap'n Proto"),
        ("core/net/tls.cpp", "<sqlite3.h>", "is SQLite, which only core/store"),
        ("core/net/tls.cpp", "<spdlog/spdlog.h>", "is spdlog, which only core/log"),
        ("core/net/tls.cpp", "<CLI/CLI.hpp>", "is CLI11, which only hosts/cli"),
        ("core/net/tls.cpp", "<toml++/toml.h>", "is toml++, which only hosts/common"),
        ("core/net/tls.cpp", "<leveldb/db.h>", "belongs to no library"),
        ("core/net/tls.cpp", '"core/net/gone.hpp"', "is no file of the repository"),
        ("core/net/tls.cpp", '"../wire/values.hpp"', "name the path from the repository's root"),
        ("core/net/tls.cpp", "<core/net/loop.hpp>", "is ours: include it in quotes"),
        ("core/net/tls.cpp", "<sodium.h>", "is libsodium, which only core/trust"),
        ("core/trust/keys.cpp", "<openssl/evp.h>", "is OpenSSL, which only core/net"),
        ("core/trust/keys.cpp", '"core/plugin/note.hpp"', "may include only"),
        ("core/scheduler/lease.cpp", '"core/net/loop.hpp"', "may include only"),
        ("core/scheduler/lease.cpp", "<thread>", "is pure logic"),
        ("core/validation/policy.cpp", "<sys/socket.h>", "is pure logic"),
        ("backends/cpu/dot.cpp", '"backends/reference/matmul.hpp"', "may include only"),
        ("backends/cpu/dot.cpp", '"core/net/loop.hpp"', "may include only"),
        ("backends/cpu/dot.cpp", "<cuda_runtime.h>", "is CUDA, which only backends/gpu"),
        ("plugins/matmul/kind.cpp", '"plugins/training/round.hpp"', "may include only"),
        ("plugins/matmul/kind.cpp", '"backends/common/pack.hpp"', "may include only"),
        ("plugins/matmul/kind.cpp", "<cblas.h>", "is BLAS, which only backends/cpu"),
        ("hosts/lab/main.cpp", '"hosts/volunteer/daemon.hpp"', "may include only"),
        ("hosts/lab/main.cpp", '"plugins/matmul/plan.hpp"', "may include only"),
        ("hosts/common/config.cpp", '"hosts/link/link.hpp"', "may include only"),
        ("hosts/link/link.cpp", '"hosts/lab/jobs.hpp"', "may include only"),
        ("hosts/lab/main.cpp", "<sodium.h>", "is libsodium"),
        ("hosts/lab/main.cpp", "<gtest/gtest.h>", "is GoogleTest"),
        ("hosts/lab/main.cpp", '"core/net/asio_socket.hpp"', "reaches Asio through"),
        ("sdk/python/module.cpp", '"hosts/common/config.hpp"', "may include only"),
        ("sdk/template/kind.cpp", "<core/net/loop.hpp>", "may include only"),
        ("hosts/common/paths.cpp", '"hosts/link/link.hpp"', "may include only"),
        ("tests/testing/plugins/bad.cpp", '"core/net/loop.hpp"', "may include only"),
    ],
)
def test_a_violation_is_found_and_named(file: str, include: str, said: str) -> None:
    found = problems_of(file, f"// The line below.\n#include {include}\n")
    assert len(found) == 1, found
    assert found[0].startswith(f"{file}:2: ")
    assert said in found[0]


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("sdk/include/goblin/abi/new.h", '"goblin/abi/types.h"'),
        ("core/net/tls.cpp", "<boost/asio/ssl.hpp>"),
        ("core/net/tls.cpp", "<openssl/ssl.h>"),
        ("core/net/tls.cpp", '"core/net/asio_socket.hpp"'),
        ("core/trust/keys.cpp", "<sodium.h>"),
        ("core/trust/state.cpp", '"core/wire/values.hpp"'),
        ("core/wire/read.cpp", "<kj/array.h>"),
        ("core/store/db.cpp", "<sqlite3.h>"),
        ("core/plugin/load.cpp", "<boost/dll/shared_library.hpp>"),
        ("core/log/log.cpp", "<spdlog/sinks/rotating_file_sink.h>"),
        ("core/scheduler/lease.cpp", '"core/wire/values.hpp"'),
        ("core/store/db.cpp", "<sys/mman.h>"),
        ("backends/cpu/dot.cpp", "<immintrin.h>"),
        ("backends/cpu/dot.cpp", '"backends/common/pack.hpp"'),
        ("plugins/matmul/kind.cpp", '"plugins/matmul/plan.hpp"'),
        ("hosts/lab/main.cpp", '"hosts/lab/jobs.hpp"'),
        ("hosts/lab/main.cpp", '"core/net/loop.hpp"'),
        ("hosts/lab/main.cpp", '"hosts/link/link.hpp"'),
        ("hosts/cli/main.cpp", '"hosts/volunteer/daemon.hpp"'),
        ("hosts/cli/main.cpp", "<CLI/CLI.hpp>"),
        ("sdk/python/module.cpp", "<pybind11/pybind11.h>"),
        ("sdk/python/module.cpp", '"core/net/loop.hpp"'),
        ("sdk/template/kind.cpp", "<goblin/error.hpp>"),
        ("tests/core/net/loop_test.cpp", '"core/net/asio_socket.hpp"'),
        ("hosts/link/link.cpp", '"hosts/common/config.hpp"'),
        ("tests/contract/matmul_test.cpp", '"backends/reference/matmul.hpp"'),
        ("tests/testing/plugins/bad.cpp", '"goblin/error.hpp"'),
        ("tests/testing/lying_host/main.cpp", '"hosts/volunteer/daemon.hpp"'),
    ],
)
def test_what_is_allowed_is_not_reported(file: str, include: str) -> None:
    assert problems_of(file, f"#include {include}\n") == []


def test_a_library_that_leaks_through_two_headers_is_found_with_its_way() -> None:
    world = {
        **WORLD,
        "core/net/outer.hpp": '#include "core/net/asio_socket.hpp"\n',
        "hosts/lab/main.cpp": '#include "core/net/outer.hpp"\n',
    }
    (problem,) = Checker(world).check()
    assert str(problem) == (
        "hosts/lab/main.cpp:1: reaches Asio through core/net/outer.hpp → "
        "core/net/asio_socket.hpp → <boost/asio/ip/tcp.hpp>; keep it in .cpp files of "
        "core/net and tests"
    )


def test_headers_that_include_each_other_end() -> None:
    world = {
        "core/net/a.hpp": '#include "core/net/b.hpp"\n',
        "core/net/b.hpp": '#include "core/net/a.hpp"\n#include <boost/asio.hpp>\n',
        "hosts/lab/main.cpp": '#include "core/net/a.hpp"\n',
    }
    assert len(Checker(world).check()) == 1


def test_a_folder_that_nobody_declared_is_refused() -> None:
    (problem,) = Checker({"extras/thing.cpp": ""}).check()
    assert "lies in no folder" in str(problem)


def test_includes_in_comments_do_not_count() -> None:
    text = '/* #include <a>\n#include <b>\n*/\n// #include <c>\n#include <d>\n# include "e.hpp"\n'
    assert [(i.line, i.quoted, i.target) for i in parse_includes(text)] == [
        (5, False, "d"),
        (6, True, "e.hpp"),
    ]


def test_the_program_prints_and_exits_with_1(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "check_includes.py"
    bad = tmp_path / "core" / "store"
    bad.mkdir(parents=True)
    (bad / "db.cpp").write_text("#include <openssl/evp.h>\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout.startswith("core/store/db.cpp:1: <openssl/evp.h> is OpenSSL")
    (bad / "db.cpp").write_text("#include <sqlite3.h>\n")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")
