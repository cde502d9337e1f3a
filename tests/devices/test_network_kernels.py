"""Kernels of networks from whatever is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.network_kernels import (
    common_rules,
    has_kernels,
    network_kernels,
)
from latcast.errors import DatasetError
from latcast.kernels.rules import load_rules
from latcast.kernels.types import kernel_type
from latcast.records import Reference
from latcast.spaces.catalogue import build, model

SQUEEZENET = model("squeezenet1_1")

ONE_CONVOLUTION = [[0, 224, 112, 3, 32, 3, 2, 1]]


def test_a_graph_and_its_reference_have_the_same_kernels() -> None:
    rules = load_rules("onnxruntime")

    assert network_kernels(build(SQUEEZENET), rules) == network_kernels(SQUEEZENET, rules)
    assert [len(kernels) for kernels in (network_kernels(each, rules) for each in (SQUEEZENET, build(SQUEEZENET)))] == [
        len(network_kernels(SQUEEZENET, rules))
    ] * 2


def test_published_layers_are_kernels_too() -> None:
    layers = Reference("iiswc20", {"index": 0, "layers": ONE_CONVOLUTION}, "iiswc20-0")

    [kernel] = network_kernels(layers, load_rules("none"))

    assert has_kernels(layers)
    assert (kernel.kernel_type, kernel.operators) == ("conv", ("conv",))


@pytest.mark.parametrize(("code", "operator", "groups", "macs"), [(0, "conv", 1, 9 * 64 * 64), (1, "depthwise_conv", 64, 9 * 64)])
def test_a_published_depthwise_convolution_has_a_group_a_channel(code: int, operator: str, groups: int, macs: int) -> None:
    """64 channels of 56 by 56 pixels through a window of 3."""
    layers = Reference("iiswc20", {"index": 0, "layers": [[code, 56, 56, 64, 64, 3, 1, 1]]}, "iiswc20-0")

    [kernel] = network_kernels(layers, load_rules("none"))

    kind = kernel_type(operator)
    columns = kind.columns(np.array([kernel.configuration]))
    assert (kernel.kernel_type, columns["groups"].tolist()) == (operator, [groups])
    assert kind.quantities(columns).flops.tolist() == [2 * 56 * 56 * macs]


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (Reference("usc_nas", {"name": "net7"}, "net7"), "the kernels of 'net7' are not known: Li et al"),
        (Reference("iiswc20", {"index": 3}, "iiswc20-3"), "the kernels of 'iiswc20-3' are not known: Ganesan et al"),
    ],
)
def test_of_names_alone_no_kernel_is_known(reference: Reference, reason: str) -> None:
    assert not has_kernels(reference)
    with pytest.raises(DatasetError, match=reason):
        network_kernels(reference, load_rules("none"))


def test_the_common_rules_are_those_that_most_platforms_run_by() -> None:
    onnxruntime, ncnn = "a/onnxruntime-1.31/cpu1/fp32", "a/ncnn-1.0/cpu1/fp32"

    assert common_rules([onnxruntime, ncnn, "b/onnxruntime-1.31/cpu1/fp32"]).runtime == "onnxruntime"
    assert common_rules([onnxruntime, ncnn, "b/ncnn-1.0/cpu1/fp32"]).runtime == "ncnn"


def test_runtimes_that_are_not_known_fuse_nothing() -> None:
    assert common_rules(["a/magic-1.0/cpu1/fp32"]) == load_rules("none")
    assert common_rules([]) == load_rules("none")
