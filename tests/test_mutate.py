"""Faults planted to try the tests, and the tests that are tried with them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "mutate.py"


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    pytest.importorskip("mutmut", reason="the faults are mutmut's (extra dev)")
    spec = importlib.util.spec_from_file_location("mutate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def guards(mutate: ModuleType) -> Any:
    return mutate.Guards()


def test_a_fault_changes_one_place_and_no_wording(mutate: ModuleType) -> None:
    faults = [make() for make in mutate.places("predictors/sustained.py")]

    changed = {(fault.function, fault.kind) for fault in faults}
    assert ("", "operator_number") in changed  # a constant of the module
    assert ("sustained", "operator_swap_op") in changed
    for fault in faults:
        removed = [line for line in fault.diff.splitlines() if line.startswith("-")]
        assert len(removed) == 1
        assert not removed[0].startswith(("-import", "-from", '-"""', "-def "))
        compile(fault.code, fault.module, "exec")


def test_the_test_file_of_a_module_s_name_is_tried_first_and_those_that_import_it_next(mutate: ModuleType, guards: Any) -> None:
    found = guards.of("predictors/analytical.py")

    assert found[0] == "tests/predictors/test_analytical.py"
    assert len(found) == mutate.MOST_FILES
    assert all("predictors/analytical.py" in guards.tests[test] for test in found)


def test_a_module_that_no_test_imports_is_tried_with_the_tests_of_its_folder(guards: Any) -> None:
    found = guards.of("predictors/golden.py")

    assert found
    assert all(test.startswith("tests/predictors/") for test in found)


def test_every_fault_of_the_scope_has_a_test_that_may_notice_it(mutate: ModuleType, guards: Any) -> None:
    assert [module for module in mutate.modules() if not guards.of(module)] == []
