# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""scripts/bench: records refuse what misleads, measuring takes turns, the page shows it all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from benchlib.context import Context, cpu_name, interleave  # noqa: E402
from benchlib.record import from_json, read_records, write_records  # noqa: E402
from benchlib.registry import discover  # noqa: E402
from benchlib.render import render  # noqa: E402

GOOD: dict[str, Any] = {
    "name": "gemm",
    "case": "sgemm n=512",
    "value": 100.0,
    "unit": "GFLOP/s",
    "higher_is_better": True,
    "cpu": "A processor",
    "threads": 1,
    "date": "2026-01-02T03:04:05+00:00",
    "commit": "0123456789ab",
    "peers": {"OpenBLAS": 80.0, "oneDNN": 125.0},
    "ratio_to_best_peer": 0.8,
    "limit": 200.0,
    "limit_name": "fma peak",
}


def test_a_record_survives_writing_and_reading(tmp_path: Path) -> None:
    record = from_json(GOOD)
    assert record.share_of_limit == 0.5
    write_records(tmp_path / "out.json", [record])
    assert read_records(tmp_path / "out.json") == [record]
    assert json.loads((tmp_path / "out.json").read_text()) == [GOOD]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Gemm"),
        ("name", "../gemm"),
        ("case", " "),
        ("value", 0),
        ("value", float("nan")),
        ("value", float("inf")),
        ("value", True),
        ("value", "100"),
        ("unit", ""),
        ("higher_is_better", 1),
        ("threads", 0),
        ("threads", 1.5),
        ("threads", True),
        ("date", "yesterday"),
        ("date", "2026-01-02T03:04:05"),
        ("commit", ""),
        ("peers", {"OpenBLAS": float("nan")}),
        ("peers", {"OpenBLAS": -1.0}),
        ("peers", [80.0]),
        ("peers", {}),
        ("ratio_to_best_peer", 1.25),
        ("ratio_to_best_peer", None),
        ("limit", None),
        ("limit", -2.0),
        ("limit_name", None),
    ],
)
def test_a_wrong_field_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"ratio_to_best_peer|limit_name|" + field):
        from_json({**GOOD, field: value})


def test_missing_and_unknown_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="commit"):
        from_json({key: value for key, value in GOOD.items() if key != "commit"})
    with pytest.raises(ValueError, match="speed"):
        from_json({**GOOD, "speed": 1})
    with pytest.raises(ValueError, match="object"):
        from_json([GOOD])


def test_files_that_are_no_list_of_records_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}")
    with pytest.raises(ValueError, match="list of records"):
        read_records(file)
    file.write_text("[")
    with pytest.raises(ValueError, match="not JSON"):
        read_records(file)


def test_the_ratio_is_above_1_when_ours_is_better_either_way() -> None:
    ctx = Context(ROOT, ROOT / "build", name="latency")
    faster = ctx.record("p50", 2, "ms", higher_is_better=False, threads=1, peers={"a": 6, "b": 4})
    assert faster.ratio_to_best_peer == 2
    more = ctx.record("rate", 30, "1/s", higher_is_better=True, threads=1, peers={"a": 10, "b": 20})
    assert more.ratio_to_best_peer == 1.5
    alone = ctx.record("memory", 20, "MiB", higher_is_better=False, threads=1)
    assert alone.ratio_to_best_peer is None
    bounded = ctx.record(
        "memory", 20, "MiB", higher_is_better=False, threads=1, limit=10, limit_name="floor"
    )
    assert bounded.share_of_limit == 0.5


def test_peers_do_not_see_what_slows_openblas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "512")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    ctx = Context(ROOT, ROOT / "build")
    program = (
        "import json, os; print(json.dumps({k: v for k, v in os.environ.items()"
        " if 'OPENBLAS' in k or 'OMP' in k}))"
    )
    seen = ctx.run_program(Path(sys.executable), "-c", program, threads=2)
    assert seen == {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    assert ctx.run_program(Path(sys.executable), "-c", program) == {}


def test_a_program_that_fails_or_prints_no_json_is_an_error() -> None:
    ctx = Context(ROOT, ROOT / "build")
    with pytest.raises(RuntimeError, match="exited 3"):
        ctx.run_program(Path(sys.executable), "-c", "raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="printed no JSON: 'hello"):
        ctx.run_program(Path(sys.executable), "-c", "print('hello')")


def test_measurements_take_turns_and_the_best_counts() -> None:
    order: list[str] = []
    values = {"ours": iter([5.0, 9.0, 7.0]), "peer": iter([4.0, 2.0, 3.0])}

    def measure(name: str) -> float:
        order.append(name)
        return next(values[name])

    runs = {name: lambda name=name: measure(name) for name in values}
    assert interleave(runs, 3, higher_is_better=True) == {"ours": 9.0, "peer": 4.0}
    assert order == ["ours", "peer", "peer", "ours", "ours", "peer"]
    lowest = interleave({"a": iter([3.0, 1.0]).__next__}, 2, higher_is_better=False)
    assert lowest == {"a": 1.0}
    with pytest.raises(ValueError, match="rounds is 0"):
        interleave(runs, 0, higher_is_better=True)


def test_the_processor_is_named() -> None:
    text = "processor\t: 0\nmodel name\t: AMD EPYC\ncpu family\t: 25\nmodel\t\t: 17\n"
    assert cpu_name(text, 2) == "AMD EPYC, family 25 model 17, 2 cores"


def test_every_benchmark_of_the_repository_is_well_formed() -> None:
    found = discover(ROOT / "tests" / "bench")
    assert "gemm" in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DOC = 'x'\ndef run(ctx): return []\n", "NAME is None"),
        ("NAME = 'A b'\nDOC = 'x'\ndef run(ctx): return []\n", "NAME is 'A b'"),
        ("NAME = 'a'\ndef run(ctx): return []\n", "DOC is missing"),
        ("NAME = 'a'\nDOC = 'x'\n", "run"),
    ],
)
def test_a_module_that_lacks_something_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "thing.py").write_text(text)
    with pytest.raises(ValueError, match=said):
        discover(tmp_path)


def test_two_modules_with_one_name_are_refused(tmp_path: Path) -> None:
    for file in ("one.py", "two.py"):
        (tmp_path / file).write_text("NAME = 'a'\nDOC = 'x'\ndef run(ctx): return []\n")
    with pytest.raises(ValueError, match=r"two\.py.*taken"):
        discover(tmp_path)


def test_the_page_shows_peers_ratio_limit_and_source() -> None:
    page = render([from_json(GOOD)], discover(ROOT / "tests" / "bench"))
    assert "## gemm" in page
    assert "| case | threads | ours (GFLOP/s, more is better) | OpenBLAS | oneDNN |" in page
    assert "| sgemm n=512 | 1 | 100 | 80 | 125 | 0.80 | 50 % |" in page
    assert "A processor; 2026-01-02; commit 0123456789ab." in page


def test_the_command_lists_and_refuses() -> None:
    def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "benchlib", *arguments],
            cwd=ROOT / "scripts",
            capture_output=True,
            text=True,
        )

    listed = bench("--list")
    assert listed.returncode == 0
    assert listed.stdout.startswith("gemm ") or "\ngemm " in listed.stdout
    unknown = bench("no-such-thing")
    assert unknown.returncode == 1
    assert "no benchmark 'no-such-thing'" in unknown.stderr
    assert bench("gemm", "--merge").returncode == 2
    assert bench().returncode == 2
