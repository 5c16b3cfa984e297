# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The simulation finds faults that are planted in the product: a sample of tests/sim/mutations."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tests" / "sim" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


mutants = load()
ALL = {mutation.name: mutation for mutation in mutants.load()}


def sample() -> list[str]:
    """Two that are found fast; which, follows from the seed."""
    drawn = "1" if "CI" in os.environ else str(random.SystemRandom().randrange(10**9))
    seed = os.environ.get("GOBLIN_TEST_SEED", drawn)
    print(f"GOBLIN_TEST_SEED={seed}")
    fast = sorted(name for name, mutation in ALL.items() if mutation.within <= 500)
    return random.Random(seed).sample(fast, 2)


def test_every_mutation_still_changes_the_product() -> None:
    assert len(ALL) >= 10
    for mutation in ALL.values():
        for file, text in mutants.changed_sources(mutation).items():
            assert text != (ROOT / file).read_text(encoding="utf-8"), mutation.name


def test_a_mutation_whose_place_is_gone_is_named(tmp_path: Path) -> None:
    edit = mutants.Edit("core/scheduler/jobs.cpp", "what nobody wrote", "")
    lost = mutants.Mutation("lost", "", 1, (edit,))
    with pytest.raises(ValueError, match="mutation lost: its text is 0 times"):
        mutants.changed_sources(lost)


def test_the_readme_says_what_found_each() -> None:
    readme = (ROOT / "tests" / "sim" / "README.md").read_text(encoding="utf-8")
    for name in ALL:
        assert f"| {name} |" in readme, name


@pytest.mark.skipif(not (BUILD / "tests" / "goblin-sim").exists(), reason="goblin-sim is not built")
@pytest.mark.parametrize("name", sample())
def test_a_planted_fault_is_found(name: str) -> None:
    verdict = mutants.run(ALL[name], BUILD, first=1)
    assert verdict.seed is not None, f"{name} was not found in {verdict.histories} histories"
