"""The folder as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from latcast.datasets.importers import IMPORTERS, FileSummary, Imported
from latcast.datasets.importers.usc import PERMUTED_PLATFORM
from latcast.errors import DatasetError
from latcast.records import Measurement
from tests.datasets.importers.usc.small_dataset import CONVOLUTION, FLOPS, SIZE_BYTES, write_dataset, write_table

PIXEL = "pixel4/tflite-2.10/gpu/fp16"

USC = IMPORTERS.get("usc")


def of(found: Imported, platform: str, network: str = "net10") -> Measurement:
    [measurement] = [item for item in found.measurements if (item.platform, item.reference.name) == (platform, network)]
    return measurement


def ignore(name: str) -> None:
    """No progress is shown."""


class TestReading:
    def test_every_file_is_accounted_for(self, small_dataset: Path) -> None:
        found = USC.read(small_dataset)

        assert found.files == {
            "tflite_cnn_ops_gpu.csv": FileSummary(2, 2, 0),
            "torch_cnn_ops_gpu.csv": FileSummary(1, 2, 0),
            "tflite_cnn_e2e.csv": FileSummary(2, 3, 1),
            "tflite_nas_e2e.csv": FileSummary(1, 1, 0),
            "torch_cnn_e2e.csv": FileSummary(1, 2, 0),
        }
        assert found.absent == ("tflite_transformer_e2e.csv", "torch_transformer_e2e.csv", "torch_nas_e2e.csv")
        assert found.refused == ()
        assert len(found.measurements) == 6

    def test_a_networks_kernels_stand_in_its_record_on_that_gpu(self, small_dataset: Path) -> None:
        found = USC.read(small_dataset)

        [kernel] = of(found, PIXEL).executed
        assert (kernel.kind, kernel.latency_ms) == ("convolution_2d", 1.5)
        assert [each.kind for each in of(found, "pixel4/pytorch-2.0/gpu/fp16").executed] == ["vulkan.conv2d"]
        assert of(found, "s10/tflite-2.10/2large/int8").executed == ()
        assert of(found, PIXEL, "net18").executed == ()

    def test_permuted_latencies_are_left_out_and_noted(self, small_dataset: Path) -> None:
        found = USC.read(small_dataset)

        assert of(found, PERMUTED_PLATFORM).executed == ()
        assert of(found, PERMUTED_PLATFORM).latency_ms == 0.9
        assert found.notes[0].startswith(f"1 operations of 1 networks on {PERMUTED_PLATFORM} are left out")

    def test_unknown_operations_are_noted(self, small_dataset: Path) -> None:
        file = small_dataset / "tflite_cnn_ops_gpu.csv"
        file.write_text(file.read_text().replace("net10,CONV_2D", "net10,RESIZE"))

        found = USC.read(small_dataset)

        assert re.fullmatch("operations of tflite_cnn_ops_gpu.csv that are not known .*: RESIZE", found.notes[0])
        assert of(found, PIXEL).executed[0].configuration["operation"] == "RESIZE"

    def test_a_folder_of_something_else_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match=r"holds none of the files of this dataset; expected tflite_cnn_e2e\.csv, "):
            USC.read(tmp_path)


class TestLaterCommits:
    """Files named as ``dataset/cnn/README.md`` and ``dataset/vit/README.md`` of the origin say, with CPU operations."""

    @pytest.fixture
    def later(self, tmp_path: Path) -> Path:
        old = write_dataset(tmp_path / "old")
        folder = tmp_path / "repository"
        for place in ("cnn", "vit"):
            (folder / "dataset" / place).mkdir(parents=True)
        for framework in ("tflite", "torch"):
            for word, what in (("real_e2e", "e2e"), ("real_ops_gpu", "ops_gpu")):
                (old / f"{framework}_cnn_{what}.csv").rename(folder / "dataset" / "cnn" / f"{framework}_cnn_{word}.csv")
        header = ["model", "operation", "feature", "s10|2large|float", "s10|2large|quant"]
        write_table(
            folder / "dataset" / "cnn" / "tflite_cnn_real_ops_cpu.csv",
            [header, ["net10", "CONV_2D", CONVOLUTION, "", "2500"], ["net10", "SOFTMAX", {"Input_shape": "8"}, "", "40"]],
        )
        network = ["model", "FLOPS", "size", "s10|2large|float|mean", "s10|2large|float|std"]
        write_table(folder / "dataset" / "vit" / "tflite_vit_real_e2e.csv", [network, ["deit", FLOPS, SIZE_BYTES, "9000", "9"]])
        write_table(
            folder / "dataset" / "vit" / "tflite_vit_synthetic_e2e.csv", [network, ["NAS0", FLOPS, SIZE_BYTES, "700", "7"]]
        )
        return folder

    @pytest.mark.parametrize("inside", [".", "dataset"])
    def test_later_files_are_read_from_the_repository_or_its_data_folder(self, later: Path, inside: str) -> None:
        found = USC.read(later / inside)

        assert found.files["tflite_cnn_real_ops_cpu.csv"] == FileSummary(2, 2, 2)
        assert len(found.measurements) == 7
        assert {str(item.environment["dataset"]["source"]) for item in found.measurements} == {
            "qed-usc/mobile-ml-benchmark, a commit later than 40ba833"
        }
        assert "torch_vit_real_ops_cpu_quant.csv" in found.absent
        assert "tflite_vit_real_ops_gpu.csv" not in found.absent

    def test_operations_on_cpus_stand_in_the_record_of_their_network_as_recorded(self, later: Path) -> None:
        found = USC.read(later)

        kernels = of(found, "s10/tflite-2.10/2large/int8").executed
        assert [(kernel.name, kernel.latency_ms, kernel.nodes) for kernel in kernels] == [
            ("CONV_2D", 2.5, ()),
            ("SOFTMAX", 0.04, ()),
        ]
        assert kernels[0].configuration["filter"] == 4
        assert found.notes[-1].startswith("2 operations on CPUs are kept with their configurations as recorded")
        assert [kernel.kind for kernel in of(found, PIXEL).executed] == ["convolution_2d"]

    def test_operations_on_cpus_are_given_to_no_node(self, later: Path, networks: list[str]) -> None:
        found = USC.complete(USC.read(later), ignore)

        assert [kernel.nodes for kernel in of(found, "s10/tflite-2.10/2large/int8").executed] == [(), ()]
        assert [kernel.nodes for kernel in of(found, PIXEL).executed] == [("conv_0", "relu_0")]

    def test_transformers_were_measured_with_a_later_tflite(self, later: Path) -> None:
        found = USC.read(later)

        assert of(found, "s10/tflite-2.15/2large/fp32", "deit").reference.space == "huggingface"
        assert of(found, "s10/tflite-2.15/2large/fp32", "NAS0").reference.parameters == {"name": "NAS0", "kind": "vit"}

    def test_both_layouts_side_by_side_are_refused(self, later: Path) -> None:
        write_dataset(later)

        with pytest.raises(DatasetError, match="two layouts"):
            USC.read(later)


class TestNetworks:
    def test_kernels_get_the_nodes_of_networks_that_can_be_built(self, small_dataset: Path, networks: list[str]) -> None:
        found = USC.complete(USC.read(small_dataset), ignore)

        assert [kernel.nodes for kernel in of(found, PIXEL).executed] == [("conv_0", "relu_0")]
        assert [kernel.nodes for kernel in of(found, "pixel4/pytorch-2.0/gpu/fp16").executed] == [("conv_0",)]
        assert networks == ["net10"]  # built once for both, and no other

    def test_networks_that_cannot_be_built_are_noted(self, small_dataset: Path, networks: list[str]) -> None:
        file = small_dataset / "tflite_cnn_ops_gpu.csv"
        file.write_text(file.read_text().replace("net99", "net18"))

        found = USC.complete(USC.read(small_dataset), ignore)

        assert [kernel.nodes for kernel in of(found, PIXEL, "net18").executed] == [()]
        assert found.notes[-1] == "nodes of 1 networks are not known: pytorchcv has no network called 'net18'"

    def test_figures_are_compared_by_file(self, small_dataset: Path, networks: list[str]) -> None:
        watched: list[str] = []
        check = USC.check(USC.read(small_dataset), watched.append)

        assert [(each.name, each.file) for each in check.figures] == [
            ("net10", "tflite_cnn_e2e.csv"), ("net10", "torch_cnn_e2e.csv"),
        ]  # fmt: skip
        assert {(each.flops_ratio, each.size_ratio) for each in check.figures} == {(1.0, 1.0)}
        assert check.exceptions == ()
        assert watched == ["net10", "net18"]
        assert check.not_buildable == {
            "pytorchcv has no network called 'net18'": ("net18",),
            "Li et al. published the latencies of their 1000 synthetic networks without the architectures": ("NAS0",),
        }

    @pytest.mark.parametrize(("flops", "size"), [("20000", "432"), ("13824", "400")])
    def test_another_network_than_the_measured_one_is_an_exception(
        self, tmp_path: Path, networks: list[str], flops: str, size: str
    ) -> None:
        folder = write_dataset(tmp_path / "usc")
        file = folder / "torch_cnn_e2e.csv"
        file.write_text(file.read_text().replace("13824,432", f"{flops},{size}"))

        [exception] = USC.check(USC.read(folder), ignore).exceptions

        assert (exception.name, exception.file) == ("net10", "torch_cnn_e2e.csv")
        assert exception.flops_ratio == pytest.approx(13824 / float(flops))
        assert exception.size_ratio == pytest.approx(432 / float(size))
