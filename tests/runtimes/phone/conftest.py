"""A double of a phone for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtimes.phone.android import Android, settings


@pytest.fixture
def android(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Android]:
    """A phone that adb reaches."""
    with Android(tmp_path_factory.mktemp("a")) as double:
        for name, value in settings(double).items():
            monkeypatch.setenv(name, value)
        yield double
