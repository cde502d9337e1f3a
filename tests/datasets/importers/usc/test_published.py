"""The dataset as it was published, where it is at hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from latcast.datasets.importers import IMPORTERS, Imported
from latcast.datasets.importers.usc import PERMUTED_PLATFORM
from latcast.datasets.importers.usc.operations import parse_kernel_name
from latcast.records import ExecutedKernel, Platform
from latcast.spaces.measured_only import can_build

USC = IMPORTERS.get("usc")


def unrecorded_nodes(executed: Iterable[ExecutedKernel]) -> int:
    """How many nodes of a network TFLite ran without a recorded kernel: gaps between the node numbers of the others."""
    numbers = {node for kernel in executed for node in parse_kernel_name(kernel.name).nodes}
    return max(numbers) + 1 - len(numbers) if numbers else 0


@pytest.fixture(scope="module")
def published(published_data: Path) -> Imported:
    folder = published_data / "usc"
    if not folder.is_dir():
        pytest.skip(f"no dataset at {folder}")
    return USC.read(folder)


def test_every_published_file_gives_records_without_refusals(published: Imported) -> None:
    assert published.absent == ()
    assert all(summary.rows and summary.records for summary in published.files.values())


def test_every_scenario_of_the_paper_is_there(published: Imported) -> None:
    # Li et al. §1: 174 scenarios, 90 of TFLite and 84 of PyTorch Mobile; transformers were measured on onefusion too.
    cnns = {item.platform for item in published.measurements if item.reference.space == "pytorchcv"}

    assert sum("/tflite-" in platform for platform in cnns) == 90
    assert sum("/pytorch-" in platform for platform in cnns) == 84


def test_only_gpus_compute_in_16_bit(published: Imported) -> None:
    platforms = [Platform.parse(name) for name in {item.platform for item in published.measurements}]
    assert all((platform.unit == "gpu") == (platform.precision == "fp16") for platform in platforms)


def test_missing_cells_are_those_of_the_files(published: Imported) -> None:
    assert published.files["torch_cnn_e2e.csv"].missing == 14
    assert published.files["tflite_cnn_e2e.csv"].missing == 0


def test_kernels_stand_in_records_of_gpus_alone(published: Imported) -> None:
    with_kernels = defaultdict(int)
    for item in published.measurements:
        if item.executed:
            with_kernels[item.platform] += 1

    assert len(with_kernels) == 9  # six GPUs with TFLite, three with PyTorch
    assert PERMUTED_PLATFORM not in with_kernels
    assert all(Platform.parse(platform).unit == "gpu" for platform in with_kernels)


def test_kernels_add_up_to_no_more_than_their_network(published: Imported) -> None:
    for item in published.measurements:
        assert sum(kernel.latency_ms for kernel in item.executed) < (item.latency_ms or 0)


def test_networks_with_padding_have_nodes_without_a_record(published: Imported) -> None:
    gaps = {
        item.reference.name: unrecorded_nodes(item.executed)
        for item in published.measurements
        if item.platform == "pixel4/tflite-2.10/gpu/fp16" and can_build(item.reference)
    }
    assert gaps["resnet18"] == 0
    assert gaps["mobilenetv2_w1"] > 0


@pytest.mark.slow
class TestNetworks:
    def test_each_is_the_one_that_was_measured(self, published: Imported) -> None:
        check = USC.check(published, lambda name: None)
        cnns = ("tflite_cnn_e2e.csv", "torch_cnn_e2e.csv")
        figures = [each for each in check.figures if each.file in cnns]

        # Swin's tables of relative positions are published smaller, MobileViTv2 counted with two thirds of its products.
        assert {each.name.partition("-")[0] for each in check.exceptions} == {"swin", "swinv2", "mobilevitv2"}
        assert len(figures) == sum(published.files[name].rows for name in cnns)
        assert all(0.96 < each.flops_ratio < 1.001 for each in figures)
        assert all(0.98 < each.size_ratio < 1.001 for each in figures)

    def test_nearly_all_recorded_time_finds_its_nodes(self, published: Imported) -> None:
        found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for item in USC.complete(published, lambda name: None).measurements:
            for kernel in item.executed:
                found[item.platform][0] += kernel.latency_ms if kernel.nodes else 0.0
                found[item.platform][1] += kernel.latency_ms

        assert len(found) == 9
        assert all(matched / whole > 0.99 for matched, whole in found.values())
