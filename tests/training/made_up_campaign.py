"""Campaigns on a made-up runtime: latencies are computed, and a clock of their own advances by what measuring would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from latcast.kernels import find_kernels, kernel_type
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.measure.campaign import CampaignItem, CampaignReport
from latcast.predictors.analytical import term_values
from latcast.records import ExecutedKernel, Measurement, Platform
from latcast.spaces.catalogue import build
from latcast.training import profiling
from tests.predictors.made_up_platform import TRUTH

PLATFORM = Platform.parse("local/onnxruntime-1.31/cpu1/fp32")


class MadeUpClock(ModuleType):
    """Stands for the module ``time``."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@dataclass
class MadeUpRuntime:
    """What takes the place of campaigns.

    Attributes:
        noise: Deviation of a network's latency, in logarithms: what no predictor can learn.
        bend: How far a kernel's latency is bent by its configuration, in logarithms: what takes long to learn.
        network_s: What measuring a network takes.
    """

    clock: MadeUpClock
    noise: float = 0.0
    bend: float = 0.0
    network_s: float = 1.0

    def campaign(
        self,
        sink: Any,
        settings: Any,
        items: Sequence[CampaignItem],
        *,
        processes: int = 1,
        process_s: float | None = None,
        budget_s: float | None = None,
        progress: Any = None,
    ) -> Any:
        """A campaign as :class:`latcast.measure.campaign.Campaign` runs them."""
        known = sink.tallies(PLATFORM.id, "network")
        self._sink = sink
        self._waiting = [item for item in items if item.reference.key not in known or processes > 1]
        self._begun_s, self._added = self.clock.now_s, 0
        self._left_s = np.inf if budget_s is None else budget_s
        return self

    def run(self) -> CampaignReport:
        while self._waiting and self.clock.now_s - self._begun_s < self._left_s:
            batch, self._waiting = self._waiting[:8], self._waiting[8:]
            for item in batch:
                self.clock.now_s += self.network_s
                self._added += self._sink.add(self._measured(item))
        return CampaignReport(PLATFORM, self._added, {}, len(self._waiting), self.clock.now_s - self._begun_s)

    def _measured(self, item: CampaignItem) -> Measurement:
        kernels = [kernel for kernel in find_kernels(build(item.reference), load_rules("onnxruntime")) if kernel.nodes]
        executed = tuple(ExecutedKernel(each.nodes[0], each.kernel_type, each.nodes, self._kernel_ms(each)) for each in kernels)
        factor = float(np.exp(self.noise * Random(item.reference.key).gauss(0.0, 1.0)))
        latency_ms = factor * sum(each.latency_ms for each in executed)
        taken_at = (
            f"2026-01-01T{int(self.clock.now_s) // 3600:02}:{int(self.clock.now_s) // 60 % 60:02}:{self.clock.now_s % 60:06.3f}Z"
        )
        return Measurement(
            PLATFORM.id, item.reference, runs_ms=(latency_ms,), rounds=(0,), latency_ms=latency_ms, raw_latency_ms=latency_ms,
            executed=executed, taken_at=taken_at,
        )  # fmt: skip

    def _kernel_ms(self, kernel: Kernel) -> float:
        row = np.array([kernel.configuration], dtype=np.int64)
        bend = np.exp(self.bend * np.sin(np.log1p(row).sum()))
        return float((term_values(kernel_type(kernel.kernel_type), row) @ TRUTH)[0] * bend) + 1e-4


def made_up_runtime(monkeypatch: pytest.MonkeyPatch, **figures: float) -> MadeUpRuntime:
    """Has profiles measure on a made-up runtime, by its clock."""
    clock = MadeUpClock("time")
    runtime = MadeUpRuntime(clock, **figures)  # type: ignore[arg-type]
    monkeypatch.setattr(profiling, "time", clock)
    monkeypatch.setattr(profiling, "training_share", lambda minutes: profiling.TRAINING_SHARE)
    monkeypatch.setattr(profiling, "Campaign", runtime.campaign)
    return runtime
