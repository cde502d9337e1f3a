"""``python -m papers`` in this process, with a home of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from latcast.cli.main import run
from papers.__main__ import main
from tests.cli.conftest import Latcast, bundle, caller, home, trained, trained_file

__all__ = ["bundle", "home", "trained", "trained_file"]


@pytest.fixture
def papers(home: Path, capfd: pytest.CaptureFixture[str]) -> Latcast:
    """Runs a command: ``papers("nn-meter", "--store", "variants.sqlite")``."""
    return caller(capfd, partial(run, main=main))
