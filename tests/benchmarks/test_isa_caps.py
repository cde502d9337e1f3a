"""A worker that takes the CPU for an older one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.isa_caps import CAPS, built_library, can_cap, capped_variables
from latcast.errors import MeasurementError

needs_caps = pytest.mark.skipif(
    not (can_cap() and shutil.which("cc")), reason="needs a CPU with the flag cpuid_fault and a C compiler"
)

ASK = "from latcast.measure.probe import numpy_instruction_sets; print(*numpy_instruction_sets())"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_library(tmp_path_factory.mktemp("caps") / "cpuid_cap.so")


def seen(library: Path, cap: str) -> set[str]:
    """Instruction sets that numpy finds in a capped process."""
    variables = {**os.environ, "LD_PRELOAD": str(library), "CPUID_CAP": cap}
    return set(
        subprocess.run([sys.executable, "-c", ASK], env=variables, check=True, capture_output=True, text=True).stdout.split()
    )


@needs_caps
@pytest.mark.parametrize(("cap", "has", "lacks"), [
    ("sse42", {"SSE42"}, {"AVX", "FMA3", "AVX2", "AVX512F"}),
    ("avx", {"SSE42", "AVX"}, {"FMA3", "AVX2", "AVX512F"}),
    ("avx2", {"AVX", "FMA3", "AVX2"}, {"AVX512F", "AVX512VNNI"}),
])  # fmt: skip
def test_a_capped_process_sees_nothing_newer_than_its_cap(library: Path, cap: str, has: set[str], lacks: set[str]) -> None:
    found = seen(library, cap)
    assert has <= found
    assert not lacks & found


@needs_caps
def test_a_misspelt_cap_ends_the_process_instead_of_measuring_without(library: Path) -> None:
    variables = {**os.environ, "LD_PRELOAD": str(library), "CPUID_CAP": "avx3"}
    found = subprocess.run([sys.executable, "-c", ASK], env=variables, capture_output=True, text=True)
    assert found.returncode == 2
    assert "CPUID_CAP=avx3 is none of sse42, avx, avx2, avx512" in found.stderr


@needs_caps
def test_a_real_segmentation_fault_still_ends_the_process(library: Path) -> None:
    variables = {**os.environ, "LD_PRELOAD": str(library), "CPUID_CAP": "avx2"}
    found = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.string_at(8)"], env=variables, capture_output=True)
    assert found.returncode == -11


def test_an_unknown_cap_is_refused() -> None:
    with pytest.raises(MeasurementError, match=f"found the cap 'avx3', expected one of {', '.join(CAPS)}"):
        capped_variables("avx3")


@needs_caps
def test_what_is_compiled_is_compiled_once(library: Path) -> None:
    before = library.stat().st_mtime_ns
    assert built_library(library) == library
    assert library.stat().st_mtime_ns == before
