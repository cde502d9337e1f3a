"""Test suites for plug-ins of each kind.

A plug-in's tests subclass a suite and name the plug-in; pytest then runs every test of the suite on it::

    from latcast.testing.contracts import RuntimeContract

    class TestMyRuntime(RuntimeContract):
        runtime_name = "myruntime"
"""

# ruff: noqa: E402

from __future__ import annotations

from latcast.extras import require

require("the contract suites of latcast.testing", "pytest")

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in ("gpu", "kernels", "learning", "networks", "runtimes")))

from latcast.testing.contracts.gpu import GpuInterfaceContract
from latcast.testing.contracts.kernels import KernelTypeContract, OperatorContract, SamplerContract
from latcast.testing.contracts.learning import RegressorContract
from latcast.testing.contracts.networks import ImporterContract, SpaceContract
from latcast.testing.contracts.runtimes import RuntimeContract

__all__ = [
    "GpuInterfaceContract",
    "ImporterContract",
    "KernelTypeContract",
    "OperatorContract",
    "RegressorContract",
    "RuntimeContract",
    "SamplerContract",
    "SpaceContract",
]
