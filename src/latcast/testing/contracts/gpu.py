"""The contract of GPU interfaces."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from latcast.errors import MeasurementError, MissingExtraError
from latcast.workgroups.gpu_interfaces import GpuInterface, find_device
from latcast.workgroups.measuring import SweepPlan, measure_sweep
from latcast.workgroups.operands import VECTOR, make_operands
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.workloads import Convolution, KernelDescriptor, convolution, depthwise_convolution

PLAIN = convolution(7, 9, 6, 10)
WORKLOADS = [
    PLAIN,
    depthwise_convolution(9, 8, 6, 5, 2),
    *(
        pytest.param(workload, marks=pytest.mark.slow)
        for workload in (
            convolution(8, 8, 8, 8, 1),
            replace(convolution(9, 8, 4, 12, 3, 2), descriptor=KernelDescriptor("conv_2x2x2", "conv", 2, 2, 2)),
            replace(depthwise_convolution(7, 7, 20), descriptor=KernelDescriptor("dw_2x1x2", "depthwise_conv", 2, 1, 2)),
        )
    ),
]
SIZES = (WorkGroup(4, 2, 1), WorkGroup(3, 5, 2), WorkGroup(3, 5, 1))
"""Sizes of which only the first divides the grids; an engine's kernel may allow only one item along an axis."""


class GpuInterfaceContract:
    """The tests of a GPU interface; skipped where it has no device."""

    interface_name: ClassVar[str]
    """Name in :data:`latcast.workgroups.gpu_interfaces.GPU_INTERFACES`."""

    partial_slices: ClassVar[bool] = True
    """Whether inputs can be given whose channels leave a part of their last slice empty."""

    def _given(self, workload: Convolution) -> Convolution:
        if self.partial_slices:
            return workload
        whole = -(-workload.in_channels // VECTOR) * VECTOR
        out = whole if workload.kind == "depthwise_conv" else workload.out_channels
        return replace(workload, in_channels=whole, out_channels=out)

    @pytest.fixture
    def found(self) -> tuple[GpuInterface, int]:
        try:
            interface, index, _ = find_device(self.interface_name)
        except (MissingExtraError, MeasurementError) as problem:
            pytest.skip(str(problem))
        return interface, index

    @pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: f"{workload}-{workload.descriptor.name}")
    def test_computes_the_convolution_with_every_size(self, found: tuple[GpuInterface, int], workload: Convolution) -> None:
        interface, index = found
        workload = self._given(workload)
        operands = make_operands(workload)
        session = interface.session(index, workload)
        try:
            for size in filter(session.limits.allow, SIZES):
                session.prepare(size)
                session.clear()
                assert np.isnan(session.result()).all()
                assert session.run(size) > 0
                operands.check(session.result(), f"{workload} with {size}")
        finally:
            session.close()

    def test_a_size_beyond_the_limits_is_an_error(self, found: tuple[GpuInterface, int]) -> None:
        interface, index = found
        session = interface.session(index, self._given(PLAIN))
        try:
            too_large = WorkGroup(2 * session.limits.most_items)
            assert not session.limits.allow(too_large)
            with pytest.raises(MeasurementError, match=str(too_large)):
                session.prepare(too_large)
        finally:
            session.close()

    def test_a_sweep_is_measured(self, found: tuple[GpuInterface, int]) -> None:
        interface, index = found
        session = interface.session(index, self._given(PLAIN))
        profile = interface.profiles()[index]
        try:
            sizes = tuple(filter(session.limits.allow, SIZES))
            sweep = measure_sweep(session, profile, sizes, SweepPlan(rounds=3))
        finally:
            session.close()
        assert sweep.times_ms.shape == (len(sizes), 3)
        assert (sweep.sizes, sweep.failed) == (sizes, {})

    def test_a_batch_is_refused_by_the_kernels(self, found: tuple[GpuInterface, int]) -> None:
        interface, index = found
        with pytest.raises(MeasurementError, match="one image"):
            interface.session(index, replace(self._given(PLAIN), batch=2))
