"""The contracts of latcast on this plug-in; skipped where it is not installed."""

from __future__ import annotations

import pytest

pytest.importorskip("latcast_haar", reason="the example plug-in is installed by tests/testing/test_plugins.py alone")

from latcast.testing.runtime_contract import RuntimeContract
from latcast.testing.sampler_contract import SamplerContract


class TestNumpy(RuntimeContract):
    runtime_name = "numpy"
    unsupported = frozenset({"transformer_block"})


class TestSmallFirst(SamplerContract):
    sampler_name = "small_first"
