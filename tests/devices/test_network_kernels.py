"""Kernels of networks from whatever is known of them."""

from __future__ import annotations

import pytest

from latcast.devices.network_kernels import (
    network_kernels,
)
from latcast.errors import DatasetError
from latcast.kernels.rules import load_rules
from latcast.records import Reference
from latcast.spaces.catalogue import build, model

SQUEEZENET = model("squeezenet1_1")


def test_a_graph_and_its_reference_have_the_same_kernels() -> None:
    rules = load_rules("onnxruntime")

    assert network_kernels(build(SQUEEZENET), rules) == network_kernels(SQUEEZENET, rules)
    assert [len(kernels) for kernels in (network_kernels(each, rules) for each in (SQUEEZENET, build(SQUEEZENET)))] == [
        len(network_kernels(SQUEEZENET, rules))
    ] * 2


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (Reference("usc_nas", {"name": "net7"}, "net7"), "the kernels of 'net7' are not known: Li et al"),
        (
            Reference("iiswc20", {"name": "iiswc20-300"}, "iiswc20-300"),
            "the kernels of 'iiswc20-300' are not known: its layers are not",
        ),
    ],
)
def test_of_names_alone_no_kernel_is_known(reference: Reference, reason: str) -> None:
    with pytest.raises(DatasetError, match=reason):
        network_kernels(reference, load_rules("none"))
