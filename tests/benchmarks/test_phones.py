"""The figures of shipped phones are of networks held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.phones import source_of, transformer_platform
from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import platform_rules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import term_values
from latcast.records import Platform
from latcast.spaces import build
from latcast.training.fitting import Trainer
from latcast.training.samples import NetworkSample, TrainingData
from tests.devices.made_up_devices import networks
from tests.predictors.made_up_platform import TRUTH

PHONE = Platform.parse("pixel4/tflite-2.10/1large/fp32")


@pytest.fixture(scope="module")
def data() -> TrainingData:
    """Twenty networks that take what their kernels' terms say."""
    samples = []
    for reference in networks():
        kernels = find_kernels(build(reference), platform_rules(PHONE))
        table = KernelTable.of([kernels])
        each_ms = [term_values(kernel_type(name), rows) @ TRUTH for name, rows in table.configurations.items()]
        samples.append(NetworkSample(reference, kernels, float(np.concatenate(each_ms)[table.kernel].sum())))
    return TrainingData(networks=tuple(samples))


@pytest.mark.parametrize("held_out", ["lineages", "random networks"])
def test_networks_held_out_together_are_predicted_without_their_latencies(data: TrainingData, held_out: str) -> None:
    lineages = [sample.lineage for sample in data.networks]
    keys = [sample.reference.key for sample in data.networks]
    slower = {name for name in lineages if name == lineages[0]} if held_out == "lineages" else {keys[0]}
    own = np.array([name in slower for name in (lineages if held_out == "lineages" else keys)])

    def predicted(times: float) -> np.ndarray:
        samples = (
            replace(sample, latency_ms=sample.latency_ms * (times if chosen else 1.0))
            for sample, chosen in zip(data.networks, own, strict=True)
        )
        groups = None if held_out == "lineages" else keys
        part = replace(data, networks=tuple(samples))
        return Trainer(PHONE, platform_rules(PHONE), source_of(data)).held_out(part, groups).latency_ms

    usual, other = predicted(1.0), predicted(3.0)

    assert other[own].tolist() == usual[own].tolist()
    assert other[~own].tolist() != usual[~own].tolist()


def test_a_platform_of_cnns_learns_from_the_transformers_of_the_same_cores() -> None:
    names = ("s10/tflite-2.10/2large/int8", "s10/pytorch-2.0/2large/int8")

    beside = [transformer_platform(Platform.parse(name)) for name in names]

    assert [platform.id for platform in beside] == ["s10/tflite-2.15/2large/int8", names[1]]
