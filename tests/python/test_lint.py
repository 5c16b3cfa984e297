# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""scripts/lint finds what is planted, remembers passes by content only, and counts right."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import junit  # noqa: E402
from lintlib import coroutines, cxx, progress, text, tools  # noqa: E402
from lintlib.cache import KEEP_SECONDS, PassCache  # noqa: E402
from lintlib.tree import Tree  # noqa: E402

LICENCE = "// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0\n"


def plant(root: Path, files: dict[str, str]) -> Tree:
    """A repository with these files."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return Tree(root)


def test_a_source_without_its_licence_is_found(tmp_path: Path) -> None:
    files = {
        "core/a.cpp": LICENCE,
        "core/b.cpp": "int b;\n",
        "core/c.py": "#!/usr/bin/env python3\n" + LICENCE.replace("//", "#"),
        "scripts/tool": "#!/usr/bin/env bash\n\n" + LICENCE.replace("//", "#"),
        "README.md": "text\n",
    }
    report = text.check_licence(plant(tmp_path, files))
    assert [line.split(":")[0] for line in report.problems] == ["core/b.cpp", "scripts/tool"]


def test_long_files_are_warned_of_not_failed(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"core/a.cpp": "\n" * 500, "core/b.cpp": "\n" * 501})
    report = text.check_size(tree)
    assert report.state == "passed"
    assert [line.split(":")[0] for line in report.warnings] == ["core/b.cpp"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('path = "/' + 'home/jane/data"', True),
        ("see /" + "root/x", True),
        ("PREFIX=/" + "work/main", True),
        ("https://pyp" + "i.org/simple", True),
        ("deb.debian" + ".org", True),
        ("/usr/lib and /proc/self/fd", False),
        ('a test says "/home/u/.config"', False),
        ("a/work/b and /workshop", False),
        ("Debian and PyPI", False),
    ],
)
def test_traces_of_one_machine_are_found(tmp_path: Path, line: str, *, found: bool) -> None:
    report = text.check_traces(plant(tmp_path, {"docs/a.md": f"first\n{line}\n"}))
    assert [p.startswith("docs/a.md:2: ") for p in report.problems] == ([True] if found else [])


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("if (co_await f()) {", True),
        ("if (!co_await f()) {", True),
        ("if (!(co_await f())) {", True),
        ("if constexpr (co_await f()) {", True),
        ("if (\n    !co_await f()) {", True),
        ("if (const int a = 1; co_await f(a)) {", True),
        ("if (g([] { int a; }); !co_await f()) {", True),
        ("} else if (co_await f()) {", True),
        ("while (co_await f()) {", True),
        ("while (n < 1'000 && m > 2'000) { if (co_await f()) {", True),
        ("if (const auto x = co_await f(); !x) {", False),
        ("while (auto frame = co_await queue.pop()) {", False),
        ("co_await f(); if (x) { co_await g(); }", False),
        ("// if (!co_await f())", False),
        ("/* if (co_await f()) */", False),
        ('auto text = "if (co_await f())";', False),
        ("if (c == '(') { co_await f(); }", False),
        ("if (co_awaited) {", False),
    ],
)
def test_conditions_that_gcc_miscompiles(tmp_path: Path, code: str, *, found: bool) -> None:
    report = coroutines.check_awaits(plant(tmp_path, {"core/a.cpp": f"\n{code}\n"}))
    assert [p.split(" ")[0] for p in report.problems] == (["core/a.cpp:2:"] if found else [])


def test_what_git_ignores_is_not_looked_at(tmp_path: Path) -> None:
    tree = plant(tmp_path, {".gitignore": "build/\n", "build/a.cpp": "", "core/a.cpp": ""})
    assert tree.cxx == ["core/a.cpp"]


def test_a_pass_is_remembered_until_it_is_old(tmp_path: Path) -> None:
    cache = PassCache(tmp_path / "cache")
    key = cache.key(["a", b"b"])
    assert key != cache.key(["ab", b""])
    assert not cache.has_passed(key)
    cache.remember(key)
    assert cache.has_passed(key)
    cache.prune()
    assert cache.has_passed(key)
    long_ago = (tmp_path / "cache" / key).stat().st_mtime - KEEP_SECONDS - 60
    os.utime(tmp_path / "cache" / key, (long_ago, long_ago))
    cache.prune()
    assert not cache.has_passed(key)


@pytest.mark.skipif(shutil.which(cxx.CLANG_FORMAT) is None, reason="clang-format is missing")
def test_format_is_checked_and_mended(tmp_path: Path) -> None:
    files = {".clang-format": "BasedOnStyle: Google\n", "core/a.cpp": "int  a ;\n"}
    tree = plant(tmp_path / "tree", files)
    cache = PassCache(tmp_path / "cache")
    bad = cxx.check_format(tree, cache, fix=False)
    assert bad.problems == ["core/a.cpp: not formatted; scripts/lint --fix does it"]
    assert cxx.check_format(tree, cache, fix=False).state == "failed"  # failures are not cached
    cxx.check_format(tree, cache, fix=True)
    assert (tmp_path / "tree" / "core/a.cpp").read_text() == "int a;\n"
    assert cxx.check_format(tree, cache, fix=False).state == "passed"


TIDY_FILES = {
    ".clang-tidy": "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\n",
    "core/a.cpp": '#include "core/a.hpp"\nint* a = inner();\n',
    "core/a.hpp": '#include "core/inner.hpp"\n',
    "core/inner.hpp": "inline int* inner() { return nullptr; }\n",
}
# The schema of a generated header that core/a.cpp may include.
SCHEMA = {"core/a.cpp": '#include "core/a.capnp.h"\n', "core/a.capnp": "@0x1;\n"}


def tidy_of(tmp_path: Path, files: dict[str, str], where: str = "tree") -> cxx.Tidy:
    """clang-tidy over a planted tree with a build beside it."""
    root = tmp_path / where
    tree = plant(root, files)
    build = root / "build"
    build.mkdir(exist_ok=True)
    command = f"/usr/bin/ccache g++ -Werror -I{root} -std=c++20 -o a.o -c {root}/core/a.cpp"
    entry = {"directory": str(build), "file": f"{root}/core/a.cpp", "command": command}
    (build / "compile_commands.json").write_text(json.dumps([entry]))
    return cxx.Tidy(tree, PassCache(tmp_path / "cache"), build)


def test_the_command_is_made_fit_for_clang(tmp_path: Path) -> None:
    (command,) = tidy_of(tmp_path, TIDY_FILES).commands().values()
    assert command[0] == "g++"
    assert not {"-Werror", "-o", "a.o", "/usr/bin/ccache"} & set(command)
    assert "-std=c++20" in command


@pytest.mark.skipif(shutil.which(cxx.CLANG_TIDY) is None, reason="clang-tidy is missing")
def test_tidy_looks_again_when_a_header_of_a_header_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tidy_of(tmp_path, TIDY_FILES).check(1, fix=False).state == "passed"
    bad = TIDY_FILES | {"core/inner.hpp": "inline int* inner() { return 0; }\n"}
    capsys.readouterr()
    report = tidy_of(tmp_path, bad).check(1, fix=False)
    assert capsys.readouterr().err.splitlines() == [
        "clang-tidy: 0/1 files",
        "clang-tidy: 1/1 files",
    ]
    assert len(report.problems) == 1
    assert report.problems[0].startswith("core/inner.hpp:1:")
    assert "modernize-use-nullptr" in report.problems[0]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_slow_check_says_how_far_it_is() -> None:
    seconds = 0.0
    out = io.StringIO()
    steps = progress.Progress("tidy", 45, out, lambda: seconds)
    assert out.getvalue() == "tidy: 0/45 files\n"
    for _ in range(21):
        steps.step()
    assert out.getvalue().splitlines()[1:] == ["tidy: 20/45 files"]
    seconds = 10.0
    steps.step()
    assert out.getvalue().splitlines()[2:] == ["tidy: 22/45 files"]
    for _ in range(23):
        steps.step()
    assert out.getvalue().splitlines()[3:] == ["tidy: 42/45 files", "tidy: 45/45 files"]


def test_on_a_terminal_one_line_is_written_over() -> None:
    out = Terminal()
    steps = progress.Progress("tidy", 2, out)
    steps.step()
    steps.step()
    assert out.getvalue() == "\rtidy: 0/2 files\rtidy: 1/2 files\rtidy: 2/2 files\n"


def test_a_check_without_files_says_nothing() -> None:
    out = io.StringIO()
    progress.Progress("tidy", 0, out)
    assert not out.getvalue()


def test_a_tidy_key_depends_on_content_not_on_the_place(tmp_path: Path) -> None:
    def key(where: str, files: dict[str, str]) -> str:
        tidy = tidy_of(tmp_path, files, where)
        ((name, command),) = tidy.commands().items()
        return tidy.key(name, command)

    first = key("one", TIDY_FILES)
    assert key("two", TIDY_FILES) == first
    nearer = {"core/.clang-tidy": "InheritParentConfig: true\n"}
    assert key("five", TIDY_FILES | nearer) != first
    with_schema = key("four", TIDY_FILES | SCHEMA)
    assert key("four", TIDY_FILES | SCHEMA | {"core/a.capnp": "@0x2;\n"}) != with_schema
    for changed in TIDY_FILES:
        assert key("three", TIDY_FILES | {changed: TIDY_FILES[changed] + "\n"}) != first


def test_shellcheck_reports_or_is_skipped(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"scripts/x": "#!/usr/bin/env bash\necho $1\n"})
    report = tools.check_shell(tree)
    assert report.state == ("failed" if shutil.which("shellcheck") else "skipped")


def test_results_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        junit.Case("a", "passed"),
        junit.Case("b", "failed", text="why"),
        junit.Case("c", "skipped", text="no GPU"),
    ]
    junit.write(tmp_path / "lint.xml", "lint", cases)
    (tmp_path / "cpp.xml").write_text(
        '<testsuite><testcase name="a" status="run"/><testcase name="b" status="fail"/>'
        '<testcase name="c" status="notrun"><skipped/></testcase>'
        '<testcase name="d" status="disabled"/></testsuite>'
    )
    assert junit.main([str(tmp_path / "lint.xml"), str(tmp_path / "cpp.xml")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "lint: 1 passed, 1 failed, 1 skipped",
        "cpp: 1 passed, 1 failed, 2 skipped",
        "2 passed, 2 failed, 3 skipped",
    ]


def test_results_that_are_missing_or_empty_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit.write(tmp_path / "none.xml", "none", [])
    assert junit.main([str(tmp_path / "none.xml")]) == 1
    junit.write(tmp_path / "good.xml", "good", [junit.Case("a", "passed")])
    assert junit.main([str(tmp_path / "good.xml")]) == 0
    assert junit.main(["--broken", "good", str(tmp_path / "good.xml")]) == 1
    assert "good: failed outside its tests" in capsys.readouterr().out
    assert junit.main([str(tmp_path / "good.xml"), str(tmp_path / "gone.xml")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
