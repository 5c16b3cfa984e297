# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""docs/python.md and the README's lines for researchers run as they are written."""

from __future__ import annotations

import codeop
import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/python.md").read_text()

pytestmark = pytest.mark.timeout(120)


def snippets(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run(code: str, names: dict[str, Any]) -> str:
    """What a snippet prints, with products that take no seconds."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code.replace("4000", "1000"), "snippet", "exec"), names)
    return said.getvalue()


def test_the_first_lines() -> None:
    assert float(run(snippets(GUIDE)[0], {})) < 0.1


def test_examples_can_be_pasted_into_a_prompt() -> None:
    """There a block ends with an empty line, and nothing may follow it before."""
    researchers = (ROOT / "README.md").read_text().split("## Five minutes: researchers")[1]
    first = (ROOT / "examples" / "first_matmul.py").read_text()
    for code in (snippets(GUIDE)[0], snippets(researchers)[0], first):
        compiler = codeop.CommandCompiler()
        typed: list[str] = []
        for line in [*code.splitlines(), ""]:
            typed.append(line)
            if compiler("\n".join(typed), "prompt", "single") is not None:
                typed = []
        assert not typed


def test_the_lines_about_jobs() -> None:
    (_, jobs) = snippets(GUIDE)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((300, 200)), rng.standard_normal((200, 100))
    with gg.local(hosts=1) as lab:
        said = run(jobs, {"lab": lab, "a": a, "b": b})
        assert re.search(r"[1-9]\d* results checked, 0 refused", said), said
        assert lab.jobs() == []  # the last line forgets it


def test_the_readme() -> None:
    researchers = (ROOT / "README.md").read_text().split("## Five minutes: researchers")[1]
    said = run(snippets(researchers)[0], {})
    assert "policy replicate (2)" in said
    assert re.search(r"[1-9]\d* results checked, 0 refused", said), said


def test_what_the_guide_names_is_there() -> None:
    for name in re.findall(r"\bgg\.(\w+)", GUIDE):
        assert hasattr(gg, name), name
    for name in re.findall(r"\blab\.(\w+)[(`]", GUIDE):
        assert hasattr(gg.LocalLab, name), name
    for name in re.findall(r"\bjob\.(\w+)", GUIDE):
        assert hasattr(gg.Job, name), name
    errors = GUIDE.split("## Errors")[1].split("\n## ")[0]
    named = set(re.findall(r"`(?:gg\.)?(\w+Error)`", errors))
    ours = {
        name
        for name in gg.__all__
        if isinstance(thing := getattr(gg, name), type) and issubclass(thing, gg.GoblinError)
    }
    assert named == ours
