"""Selections by name, alone and by the thousand, and the GPU families behind them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import LatcastError, UnknownNameError
from latcast.kernels import FusionRules, find_kernels, kernel_type
from latcast.kernels.selection import SELECTIONS, family_named, family_names, family_of_device, selection_of
from latcast.kernels.selection.gpu_family import device_families
from latcast.kernels.selection.protocol import Thresholds
from latcast.kernels.selection.retyping import RETYPINGS, retype
from latcast.kernels.types.kernel_type import Columns
from latcast.spaces.catalogue import build, model

SIZES = st.sampled_from([1, 7, 14, 28, 56, 112])
CHANNELS = st.sampled_from([1, 3, 16, 30, 64, 128, 256])


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[int, ...]:
    size, kernel, stride = draw(SIZES), draw(st.sampled_from([1, 3, 5])), draw(st.integers(1, 2))
    channels = (1, draw(CHANNELS), size, size, draw(CHANNELS), -(-size // stride), -(-size // stride))
    return (*channels, kernel, kernel, stride, stride, 1, 1, 1, int(kernel > 1), draw(st.integers(0, 3)), 0, 0)


@given(
    st.lists(convolutions(), min_size=1, max_size=20),
    st.sampled_from([*(f"tflite_gpu:{family}" for family in family_names()), "pytorch_vulkan", "pytorch_metal"]),
)
def test_many_kernels_are_chosen_as_each_alone(rows: list[tuple[int, ...]], name: str) -> None:
    selection = selection_of(name)

    together = selection.names("conv", np.array(rows))

    assert together.tolist() == [selection.kernel("conv", row)[0] for row in rows]
    for row in rows:
        kind, configuration = selection.kernel("conv", row)
        assert len(configuration) == len(kernel_type(kind).fields)
        assert all(type(value) is int for value in configuration)


def test_no_kernels_have_no_names() -> None:
    assert selection_of("pytorch_vulkan").names("conv", np.zeros((0, 18))).tolist() == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tflite_gpus:mali", "no kernel selection is called 'tflite_gpus'; known: tflite_gpu"),
        ("tflite_gpu:malii", "no GPU family is called 'malii'; known: mali"),
    ],
)
def test_an_unknown_backend_or_family_lists_the_nearest(name: str, problem: str) -> None:
    with pytest.raises(UnknownNameError, match=problem):
        selection_of(name)


def test_a_backend_with_thresholds_asks_for_a_family() -> None:
    with pytest.raises(LatcastError, match=r"'tflite_gpu' names no GPU family; expected 'tflite_gpu:FAMILY'"):
        selection_of("tflite_gpu")


def test_every_family_has_numbers_for_the_backend_that_needs_them() -> None:
    for name in family_names():
        winograd = family_named(name).thresholds["tflite_gpu"]["winograd"]
        assert set(winograd) == {"source_depth", "destination_depth", "tiles"}
        assert all(value > 0 for value in winograd.values())
        assert family_named(name).title


def test_the_measured_phones_have_the_gpus_that_the_paper_lists() -> None:
    families = {device: family_of_device(device).name for device in device_families()}

    assert families == {
        "pixel4": "adreno6xx", "mi8se": "adreno6xx", "onefusion": "adreno6xx", "s10": "mali", "a03s": "powervr",
        "iphone7": "apple", "iphonexs": "apple",
    }  # fmt: skip


def test_an_unknown_device_lists_families_and_devices() -> None:
    with pytest.raises(UnknownNameError, match=r"'pixel9' is not known; name one of adreno, .*powervr, or .*: a03s, .*s10"):
        family_of_device("pixel9")


def test_what_is_said_of_a_kernel_in_other_words_keeps_its_flops() -> None:
    c = {"batch": 2, "in_channels": 6, "in_h": 1, "in_w": 1, "out_channels": 5, "out_h": 1, "out_w": 1, "groups": 1, "padded": 0}
    ones = {f"{name}_{axis}": 1 for name in ("kernel", "stride", "dilation") for axis in "hw"}
    pool = (2, 6, 7, 5, 1, 1, 7, 5, 1, 1, 0, 0, 0)
    examples = {("conv", "linear"): kernel_type("conv").configuration({**c, **ones}), ("average_pool", "reduce"): pool}

    assert set(examples) == set(RETYPINGS)
    for (name, other), configuration in examples.items():
        before, after = kernel_type(name), kernel_type(other)
        rows = np.array([configuration])
        was, now = before.quantities(before.columns(rows)), after.quantities(after.columns(retype(name, other, rows)))
        for quantity in ("flops", "input_elements", "output_elements", "weight_elements"):
            assert getattr(was, quantity).tolist() == getattr(now, quantity).tolist()


def test_types_of_other_fields_are_not_mistaken_for_each_other() -> None:
    with pytest.raises(LatcastError, match="a kernel of type 'conv' cannot be described as 'concat'"):
        retype("conv", "concat", np.ones((1, 18)))


@pytest.fixture
def halves() -> Iterator[str]:
    """A backend of another distribution that runs convolutions with many filters as a variant of its own."""

    def select(kind: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
        if kind != "conv":
            return np.full(len(next(iter(columns.values()))), kind, dtype=object)
        return np.where(columns["out_channels"] > 100, "conv.wide", "conv").astype(object)

    SELECTIONS.register("halves", select)
    yield "halves"
    SELECTIONS._loaded.pop("halves")
    SELECTIONS._targets.pop("halves")
    selection_of.cache_clear()


def test_a_backend_of_another_distribution_names_variants_of_its_own(halves: str) -> None:
    kernels = find_kernels(build(model("resnet18")), FusionRules("mine", selection=halves))

    wide = [kernel for kernel in kernels if kernel.kernel_type == "conv.wide"]
    # Stages 2 to 4 with 128 and more filters: 4 convolutions and a shortcut each.
    assert len(wide) == 15
    kind = kernel_type("conv.wide")
    row = np.array([wide[0].configuration])
    assert kind.fields == kernel_type("conv").fields
    assert kind.throughput_class(kind.columns(row)).tolist() == ["conv 3x3 strided wide"]
