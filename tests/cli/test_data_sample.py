"""Configurations of kernels on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.store import Store
from latcast.environment import MOMENT
from latcast.kernels.rules import load_rules
from latcast.kernels.types import kernel_type
from latcast.records import Measurement
from latcast.spaces.kernel_space import KernelSpace, kernel_reference
from tests.cli.conftest import Latcast
from tests.samplers.convolutions import conv

FIELDS = kernel_type("depthwise_conv").fields


def test_json_holds_one_object_a_configuration_by_the_names_of_its_fields(latcast: Latcast) -> None:
    document = latcast("data", "sample", "depthwise_conv", "-n", 5, "--sampler", "random", "--seed", 3, "--json").json

    assert (document["kernel"], document["sampler"], document["seed"]) == ("depthwise_conv", "random", 3)
    space = KernelSpace("depthwise_conv", load_rules("onnxruntime"))
    rows = [tuple(row[name] for name in FIELDS) for row in document["configurations"]]
    assert len(set(rows)) == 5
    assert all(space.contains(row) for row in rows)


def test_a_table_has_the_fields_as_its_head(latcast: Latcast) -> None:
    head, *rows = latcast("data", "sample", "resize", "-n", 3, "--sampler", "random").out.splitlines()

    assert head.split() == list(kernel_type("resize").fields)
    assert len(rows) == 3


@pytest.mark.slow
def test_a_prior_and_the_fixed_test_set_come_from_networks(latcast: Latcast) -> None:
    drawn = latcast("data", "sample", "conv", "-n", 30, "--json").json
    tested = latcast("data", "sample", "conv", "-n", 145, "--test-set", "--json").json

    assert drawn["sampler"] == "prior"
    assert any(row["kernel_h"] == 1 and row["in_channels"] % 8 == 0 for row in drawn["configurations"])
    assert {row["kernel_h"] for row in tested["configurations"]} == {1, 3, 5, 7, 9}


def test_a_kernel_that_a_runtime_lacks_is_refused_with_those_it_has(latcast: Latcast) -> None:
    assert latcast("data", "sample", "channel_shuffle", "--runtime", "onnxruntime").reason.startswith(
        "onnxruntime runs no 'channel_shuffle' as one kernel, so none can be drawn; it has conv"
    )
    assert latcast("data", "sample", "channel_shuffle", "--runtime", "ncnn", "-n", 2, "--sampler", "random").code == 0


def test_the_rounds_of_a_store_are_a_table_json_and_a_picture(latcast: Latcast, tmp_path: Path) -> None:
    path, platform = tmp_path / "kernels.sqlite", "local/onnxruntime-1.31/cpu1/fp32"
    rounds = ["test set"] * 4 + [0] * 9 + [1] * 6
    with Store(path) as store:
        for width, chosen_in in enumerate(rounds, 1):
            reference = kernel_reference("conv", conv(8 * width, 16))
            store.add(
                Measurement(platform, reference, "kernel", latency_ms=0.1 * width, environment={MOMENT: {"round": chosen_in}})
            )
    document = latcast("data", "rounds", path, "--plot", tmp_path / "rounds.png", "--json").json

    assert [(each["round"], len(each["sampled"]["conv"])) for each in document["rounds"]] == [(0, 9), (1, 6)]
    assert sorted(each["in_channels"] for each in document["rounds"][1]["sampled"]["conv"]) == [112, 120, 128, 136, 144, 152]
    assert document["rounds"][1]["errors"]["conv"]["kernels"] == 4
    assert (tmp_path / "rounds.png").read_bytes().startswith(b"\x89PNG")
    assert [row.split()[:3] for row in latcast("data", "rounds", path).out.splitlines()[-2:]] == [
        ["0", "conv", "9"],
        ["1", "conv", "6"],
    ]
