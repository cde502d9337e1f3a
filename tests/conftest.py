"""Fixtures and settings that hold for every test."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY_ROOT = Path(__file__).resolve().parents[1]
PUBLISHED_DATA_VARIABLE = "LATCAST_PUBLISHED_DATA"

# The host may be slow and shared, so no deadline; the same examples every time, so that a red test stays red.
settings.register_profile("latcast", deadline=None, derandomize=True)
settings.load_profile("latcast")


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder of the published datasets; tests that need it are skipped where it is absent."""
    given = os.environ.get(PUBLISHED_DATA_VARIABLE)
    folder = Path(given) if given else REPOSITORY_ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        origin = f"given by {PUBLISHED_DATA_VARIABLE}" if given else f"set {PUBLISHED_DATA_VARIABLE} to them"
        pytest.skip(f"no published datasets at {folder} ({origin})")
    return folder


@pytest.fixture(autouse=True, scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Latcast's folders are empty at first, whatever the user has in theirs; processes that tests start have the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LATCAST_HOME", str(tmp_path_factory.mktemp("latcast")))
        yield


@pytest.fixture(autouse=True)
def small_numbers() -> None:
    """A runtime that some test loaded may have told the processor to take numbers too small to be normal for zero."""
    if sys.platform == "linux":
        # glibc's default environment of floating-point arithmetic.
        ctypes.CDLL(None).fesetenv(ctypes.c_void_p(-1))
