"""Latencies of a new device, read from files of every kind."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.datasets import jsonlines
from latcast.datasets.importers.benchmark_tools.manifest import KitManifest, KitNetwork
from latcast.datasets.store import Store
from latcast.devices.measured_files import read_measured
from latcast.devices.measured_networks import MeasuredNetwork, MeasuredNetworks, in_milliseconds
from latcast.errors import DatasetError, LatcastError
from latcast.graph.writers.onnx import to_onnx
from latcast.records import Measurement, Platform, Reference
from latcast.spaces import pytorchcv
from latcast.spaces.catalogue import build, model
from tests.corpus.conftest import corpus_files

RECORDED = Path(__file__).parents[1] / "datasets" / "importers" / "benchmark_tools" / "recorded"

RPI5 = Platform.parse("rpi5/tflite-2.17/cpu1/fp32")


def written(folder: Path, text: str, name: str = "few.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def measured_on(platform: str, name: str, latency_ms: float | None, *, role: str = "network") -> Measurement:
    error = "out of memory" if latency_ms is None else None
    return Measurement(platform, model(name), role, latency_ms=latency_ms, error=error)


def outcome(file: Path) -> MeasuredNetworks | LatcastError:
    try:
        return read_measured([file], RPI5)
    except LatcastError as problem:
        return problem


def read(*sources: Path, platform: Platform = RPI5) -> dict[str, float]:
    return {each.name: each.latency_ms for each in read_measured(sources, platform).networks}


class TestJsonLines:
    def test_a_line_is_a_model_and_its_latency_in_any_order(self, tmp_path: Path) -> None:
        text = '{"model": "resnet18", "latency_ms": 105.5}\n\n{"latency_ms": "24.5", "model": "mobilenetv2_w1"}\n'

        assert read(written(tmp_path, text, "few.jsonl")) == {"resnet18": 105.5, "mobilenetv2_w1": 24.5}

    @pytest.mark.parametrize(
        ("second", "message"),
        [
            ('{"model": "vgg16"}', ":2: found {'model': 'vgg16'}; expected objects of model and latency_ms"),
            ('{"model": "vgg16", "latency_ms": -1}', ":2: the latency is -1; expected a finite number above 0"),
            ("vgg16", ":2: its text: not JSON"),
        ],
    )  # fmt: skip
    def test_a_line_that_is_refused_is_named(self, tmp_path: Path, second: str, message: str) -> None:
        file = written(tmp_path, f'{{"model": "resnet18", "latency_ms": 105.5}}\n{second}\n', "few.jsonl")

        with pytest.raises(DatasetError, match=message):
            read_measured([file], RPI5)

    @pytest.mark.parametrize(
        "text",
        [
            '[{"model": "resnet18", "latency_ms": 105.5}, {"model": "mobilenetv2_w1", "latency_ms": 24.5}]',
            '[\n  {\n    "latency_us": 105500,\n    "name": "resnet18"\n  },\n'
            '  {"name": "mobilenetv2_w1", "latency_us": 24500}\n]\n',
            '{"resnet18": 105.5, "mobilenetv2_w1": 24.5}',
            '{\n"device": "pi",\n"results": [{"network": "resnet18", "fps": 9.478673},\n'
            '{"network": "mobilenetv2_w1", "fps": "40.816327"}]}',
            '{"model": "resnet18", "mean_ms": 105.5, "runs": [105, 106]}\n'
            '{"model": "mobilenetv2_w1", "mean_ms": 24.5, "runs": []}\n',
        ],
    )  # fmt: skip
    def test_documents_of_other_forms_are_read(self, tmp_path: Path, text: str) -> None:
        for name in ("few.json", "few.jsonl"):
            assert read(written(tmp_path, text, name)) == {
                "resnet18": pytest.approx(105.5, rel=1e-6), "mobilenetv2_w1": pytest.approx(24.5, rel=1e-6)
            }  # fmt: skip

    def test_the_output_of_measure_is_taken_with_its_platform(self, tmp_path: Path) -> None:
        document = {"measurements": [{**measured_on(RPI5.id, "resnet18", 9.0).to_json(), "model": "resnet18"}]}

        assert read(written(tmp_path, json.dumps(document, indent=2), "few.json")) == {"resnet18": 9.0}
        with pytest.raises(DatasetError, match=r"expected runtime tflite-2\.17, unit cpu4"):
            read(tmp_path / "few.json", platform=replace(RPI5, unit="cpu4"))


class TestTables:
    def test_names_of_every_kind_and_files_beside_it(self, tmp_path: Path) -> None:
        (tmp_path / "mine.onnx").write_bytes(to_onnx(build(model("squeezenet1_1"))))
        file = written(tmp_path, "model,latency_ms\nresnet18,105.5\nmobilenetv2_w1, 24.5\n\nmine.onnx,31\n")

        found = read_measured([file], RPI5)

        assert found.latency_ms == {
            pytorchcv.reference_of("resnet18"): 105.5,
            pytorchcv.reference_of("mobilenetv2_w1"): 24.5,
            found.networks[2].reference: 31.0,
        }
        assert found.networks[2].reference.space == "file"
        assert [each.places for each in found.networks] == [("few.csv:2",), ("few.csv:3",), ("few.csv:5",)]
        assert found.notes == ()

    def test_a_name_in_two_spellings_is_one_network(self, tmp_path: Path) -> None:
        [found] = read_measured([written(tmp_path, "model,latency_ms\nresnet18,100\nResNet-18,120\n")], RPI5).networks

        assert (found.reference, found.values_ms) == (pytorchcv.reference_of("resnet18"), (100.0, 120.0))

    def test_what_spreadsheets_write_is_read(self, tmp_path: Path) -> None:
        text = '\ufeffModel,Latency_ms\r\n"resnet18","105.5"\r\n,\r\n'
        (tmp_path / "a.csv").write_bytes(text.encode())
        (tmp_path / "b.csv").write_bytes(text.removeprefix("\ufeff").encode("utf-16"))

        assert read(tmp_path / "a.csv") == read(tmp_path / "b.csv") == {"resnet18": 105.5}

    @pytest.mark.parametrize(
        "text",
        [
            "Model;Latency (ms)\nresnet18;105,5\nresnet50;1000\n",
            "name\tms\nresnet18\t105.5\nresnet50\t1000\n",
            "Network, Inference time [ms]\nresnet18, 105.5\nresnet50, 1000\n",
            "# on the balcony\nTime (s),file size,Name\n# first\n0.1055,45 MB,resnet18\n1.000,98 MB,resnet50\n",
            "network;batch;mean [µs];p90 [µs]\nresnet18;1;105500,0;200000\nresnet50;1;1e6;2e6\n",
            "model,avg ms,median ms,min ms\nresnet18,110,105.5,99\nresnet50,1010,1000,998\n",
            "model,latency\nresnet18,105.5 ms\nresnet50,1 s\n",
            "model,latency_ms\nresnet18,105.5 ± 3.2\nresnet50,1000 +/- 10 ms\n",
            "# Results\n\n| Model | Latency (ms) |\n|:------|-----:|\n| **resnet18** | 105.5 |\n| `resnet50` | 1000 |\n\nDone.\n",
            ",device,model,FPS\n0,pi,resnet18,9.47867298578199\n1,pi,resnet50,1\n",
            "backbone,images/sec\nresnet18,9.47867298578199\nresnet50,1\n",
            "Architecture,inferences per second\nresnet18,9.47867298578199\nresnet50,1\n",
            "model,exec time (s/img)\nresnet18,0.1055\nresnet50,1\n",
        ],
    )
    def test_separators_and_headings_of_other_countries_and_people_are_read(self, tmp_path: Path, text: str) -> None:
        assert read(written(tmp_path, text)) == {"resnet18": pytest.approx(105.5), "resnet50": pytest.approx(1000.0)}

    def test_rows_of_two_precisions_are_each_of_their_platform(self, tmp_path: Path) -> None:
        file = written(tmp_path, "model,dtype,latency_ms\nresnet18,float32,105.5\nresnet18,INT8,40\n")

        found = read_measured([file], RPI5)
        assert list(found.latency_ms.values()) == [105.5]
        assert found.notes == (f"{file}: what was measured on rpi5/tflite-2.17/cpu1/int8 is left out",)
        assert read(file, platform=replace(RPI5, precision="int8")) == {"resnet18": 40.0}

    def test_a_precision_behind_a_name_is_the_platforms_unless_a_network_is_called_so(self, tmp_path: Path) -> None:
        file = written(tmp_path, "model,latency_ms\nresnet34,105.5\nResNet-34 (INT8),40\nsqueezenet_int8,12\n")

        assert read(file) == {"resnet34": 105.5}
        assert read(file, platform=replace(RPI5, precision="int8")) == {"resnet34": 40.0, "ncnn_benchmark/squeezenet_int8": 12.0}

    @pytest.mark.parametrize(
        ("size", "shape"),
        [("288", (1, 3, 288, 288)), ("288x320", (1, 3, 288, 320)), ("1x3x160x160", (1, 3, 160, 160)), ("", (1, 3, 224, 224))],
    )
    def test_an_image_s_size_in_a_column_is_that_of_the_network(self, size: str, shape: tuple[int, ...], tmp_path: Path) -> None:
        [found] = read_measured([written(tmp_path, f"network,input,latency_ms\nresnet18,{size},5\n")], RPI5).networks

        assert build(found.reference).shape("input") == shape

    def test_a_network_takes_the_size_of_another_collection_s_that_has_its_name(self, tmp_path: Path) -> None:
        # pytorchcv's, which known phones ran, has one size.
        found = read_measured([written(tmp_path, "model,input,latency_ms\nseresnet50,160,5\n")], RPI5)

        assert build(found.networks[0].reference).shape("input") == (1, 3, 160, 160)
        assert found.notes == ()

    @pytest.mark.parametrize("table", ["batch,latency_ms\nresnet18,8,40", "images/s\nresnet18,200", "batch,fps\nresnet18,8,200"])
    def test_under_a_unit_of_a_batch_rates_and_latencies_are_of_the_batch(self, table: str, tmp_path: Path) -> None:
        [found] = read_measured([written(tmp_path, f"model,{table}\n")], replace(RPI5, unit="cpu1+b8")).networks

        assert found.latency_ms == pytest.approx(40)

    def test_a_size_of_a_network_that_reads_text_is_no_image_s(self, tmp_path: Path) -> None:
        table = written(tmp_path, "model,input,latency_ms\nbert_base_uncased_hf,1x384,5\n")

        assert [each.name for each in read_measured([table], RPI5).networks] == ["aihub/bert_base_uncased_hf"]

    def test_a_row_of_a_size_that_the_network_is_not_known_for_is_left_out_and_said(self, tmp_path: Path) -> None:
        name, header = "timm/deit_tiny_patch16_224", "model,resolution,latency_ms"
        found = read_measured([written(tmp_path, f"{header}\n{name},96,5\n{name},224x224,40\n")], RPI5)

        assert {each.name: each.values_ms for each in found.networks} == {name: (40.0,)}
        assert found.notes == (
            f"left out, as not known for images of the size that the table states, {name} at 96x96: give model files",
        )
        with pytest.raises(DatasetError, match=r"expected at least one \(left out, as not known for images"):
            read_measured([written(tmp_path, f"{header}\n{name},96,5\n")], RPI5)

    @pytest.mark.parametrize(
        ("platform", "name", "space"),
        [
            ("pi/ncnn-1.0/cpu4/fp32", "resnet50", "ncnn_benchmark"), ("pi/tflite-2.17/cpu4/fp32", "resnet50", "resnet"),
            ("s24/qairt-2.42/npu+qnn_dlc/int8", "efficientnet_b4", "aihub"),
            ("s24/qnn-2.42/npu/int8", "mobile_vit", "aihub"),
            ("s24/tflite-2.17/npu+qairt-2.42/int8", "mobile_vit", "aihub"),
            ("galaxy-s24-ultra/tflite-2.17/npu/int8", "mobile_vit", "aihub"),
            ("iphone-15/tflite-2.17/npu/int8", "resnet34", "resnet"),
            ("s24/qairt-2.42/npu/int8", "resnet34", "resnet"),
            ("hailo-8/hailo-unstated/npu/int8", "repvgg_a1", "hailo"),
        ],
    )  # fmt: skip
    def test_a_name_means_the_network_of_the_collection_that_is_timed_on_such_platforms(
        self, platform: str, name: str, space: str, tmp_path: Path
    ) -> None:
        found = read_measured([written(tmp_path, f"model,latency_ms\n{name},5\n")], Platform.parse(platform))

        assert [each.reference.space for each in found.networks] == [space]
        assert any(f"that {space} has" in note for note in found.notes) == (space != "resnet")

    def test_a_network_of_a_collection_stays_what_it_is_at_the_size_that_the_collection_states(self, tmp_path: Path) -> None:
        table = written(tmp_path, "model,resolution,latency_ms\nefficientnet_b4,380x380,2\nShuffleNet-v2,224x224,1\n")

        found = read_measured([table], Platform.parse("s24/qnn-2.42/npu/int8"))

        assert [each.name for each in found.networks] == ["aihub/efficientnet_b4", "shufflenet_v2_x0_5"]

    def test_a_unit_that_the_table_states_is_not_asked_for_again(self, tmp_path: Path) -> None:
        for heading, latency_ms in (("latency_us", 105.5), ("latency_ms", 105.5), ("fps", 1e3 / 105500)):
            found = read_measured([written(tmp_path, f"model,{heading}\nresnet18,105500\n")], RPI5)
            [network] = in_milliseconds(found, [100.0], "us").networks

            assert network.latency_ms == pytest.approx(latency_ms)

    def test_every_line_that_is_refused_is_named_and_an_unknown_name_with_those_near(self, tmp_path: Path) -> None:
        file = written(tmp_path, "model,latency_ms\nresnet181,3\nresnet18,4\nmobilnet_v2,5\nx,6\ny,7\nresnet34,8\nz,9\n")

        with pytest.raises(DatasetError) as caught:
            read_measured([file], RPI5)

        reason = str(caught.value)
        assert reason.startswith(f"{file}:2: the network 'resnet181' is not known: there is no file 'resnet181' here or beside")
        assert "resnet18," in reason
        assert reason.endswith("; 4 more refused: lines 4-6, 8")

    def test_a_name_with_its_space_is_not_taken_for_a_path(self, tmp_path: Path) -> None:
        file = written(tmp_path, "model,latency_ms\naihub/convnext_tiny,3\n")

        assert list(read_measured([file], RPI5).latency_ms) == [model("aihub/convnext_tiny")]
        # Not the resnet18 of a family.
        with pytest.raises(DatasetError, match=r"few.csv:2: the network 'nosuch/resnet18' is not known"):
            read_measured([written(tmp_path, "model,latency_ms\nnosuch/resnet18,3\n")], RPI5)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (
                "model,size_mb\nresnet18,3\n",
                ":1: found the header 'model,size_mb', expected columns such as model,latency_ms",
            ),
            ("", ":1: found the header '', expected columns such as model,latency_ms"),
            ("model,latency_ms\n", ":1: no model follows the header"),
            ("model,latency_ms\nresnet18,12,5\n", ":2: found 3 cells"),
            ("model,latency_ms\nresnet18\n,4\nresnet18,5\n", ":2: found 1 cells; .*, as the header has; 1 more refused: line 3"),
            ("model,latency_ms\nresnet18,-3\n", ":2: the latency is -3; expected a finite number above 0"),
            ("model,latency_ms\nresnet18,1_000\n", ":2: the latency is 1_000; expected"),
            ("model,latency_ms\nresnet18,nan\n", ":2: the latency is nan; expected"),
            ("model,latency_ms\nresnet18,1e300\n", r":2: the latency is 1e300; expected 1e-09 to 1e\+12 ms"),
            ("model,latency_ms\nresnet18,12 min\n", ":2: the latency is 12 min; expected a number, of ms, us, s or fps"),
            ("model,latency_ms\nresnet18,N/A\n", ":2: the latency is N/A; expected"),
            ('model,latency_ms\nresnet18,"1,000"\n', ":2: the latency is 1,000; expected .* nothing between thousands"),
            ("model;ms\nresnet18;1.000,5\n", ":2: the latency is 1.000,5; expected a point before decimals"),
            ("model,ms,ms\nresnet18,30,31\n", ":1: found two columns 'ms'; expected one: runs of a network in rows"),
            ("model,batch,ms\nresnet18,4,30\n", r":2: the batch is 4; expected 1, .* in the unit, as in gpu\+b4"),
            ("model,batch,ms\nresnet18,four,30\n", ":2: the batch is four; expected a number of images"),
            ("model,ms,Device\nresnet18,30,pi\nvgg16,9,s10\n", ":3: found Device 's10' after 'pi'; expected one in a file"),
            ("model,ms,precision\nresnet18,30,mixed\n", ":2: the precision is 'mixed'; expected fp32, fp16, bf16, int8"),
        ],
    )
    def test_malformed_tables_are_refused_with_their_line(self, tmp_path: Path, text: str, reason: str) -> None:
        with pytest.raises(DatasetError, match=f"few.csv{reason}"):
            read_measured([written(tmp_path, text)], RPI5)

    @settings(max_examples=40)
    @given(rows=st.lists(st.tuples(st.sampled_from(["resnet18", "resnet34", "vgg16"]), st.floats(1e-6, 1e9)), min_size=1))
    def test_every_value_counts_once_in_the_median_of_its_network(
        self, rows: list[tuple[str, float]], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        text = io.StringIO()
        csv.writer(text).writerows([("model", "latency_ms"), *rows])

        found = read_measured([written(tmp_path_factory.mktemp("csv"), text.getvalue())], RPI5)

        assert [(each.name, list(each.values_ms)) for each in found.networks] == [
            (name, [value for each, value in rows if each == name]) for name in dict.fromkeys(name for name, _ in rows)
        ]
        for each in found.networks:
            assert each.latency_ms == pytest.approx(float(np.median(each.values_ms)))

    @settings(max_examples=40)
    @given(text=st.text(max_size=80) | st.text("model,latency_ms\nresnet18,0123456789.e-\"'\r\n;\t", max_size=120))
    def test_any_text_is_read_or_refused_in_one_line(self, text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        file = tmp_path_factory.mktemp("csv") / "few.csv"
        for content in (text, f"model,latency_ms\n{text}"):
            file.write_bytes(content.encode("utf-8", "surrogatepass"))
            found = outcome(file)
            if isinstance(found, LatcastError):
                assert str(file) in str(found)
                assert str(found).isprintable()
            else:
                assert all(0 < each.latency_ms < np.inf for each in found.networks)


class TestRepetitions:
    def test_values_of_one_network_are_combined_and_it_is_said(self, tmp_path: Path) -> None:
        first = written(tmp_path, "model,latency_ms\nsqueezenet1_1,10\nresnet50,50\nsqueezenet1_1,11\n", "a.csv")
        second = written(tmp_path, "model,latency_ms\nsqueezenet1_1,30\n", "b.csv")

        found = read_measured([first, second], RPI5)

        assert [(each.name, each.latency_ms, each.values_ms) for each in found.networks] == [
            ("squeezenet1_1", 11.0, (10.0, 11.0, 30.0)),
            ("resnet50", 50.0, (50.0,)),
        ]
        assert found.networks[0].places == ("a.csv:2", "a.csv:4", "b.csv:2")
        assert found.notes == (
            "of several values of one network the median counts: squeezenet1_1 (3)",
            "squeezenet1_1: from 10 ms (a.csv:2) to 30 ms (b.csv:2)",
        )

    def test_a_file_is_the_same_network_in_any_folder(self, tmp_path: Path) -> None:
        data = to_onnx(build(model("squeezenet1_1")))
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            (tmp_path / name / f"{name}.onnx").write_bytes(data)
        file = written(tmp_path, "model,latency_ms\na/a.onnx,10\nb/b.onnx,12\n")

        [found] = read_measured([file], RPI5).networks

        assert (found.latency_ms, len(found.values_ms)) == (11.0, 2)


class TestRecords:
    def test_json_lines_and_stores_of_the_platform_are_read_whatever_the_device_is_called(self, tmp_path: Path) -> None:
        records = [measured_on(f"{device}/tflite-2.17/cpu1/fp32", "resnet18", 5.0) for device in ("local", "rpi5")]
        jsonlines.write(tmp_path / "local.jsonl", records[:1])
        with Store(tmp_path / "few.sqlite") as store:
            store.add_all(records[1:])

        for source in ("local.jsonl", "few.sqlite"):
            found = read_measured([tmp_path / source], RPI5)
            assert (found.latency_ms, found.notes) == ({model("resnet18"): 5.0}, ())

    def test_another_device_s_name_is_said(self, tmp_path: Path) -> None:
        jsonlines.write(tmp_path / "few.jsonl", [measured_on("pi/tflite-unstated/cpu1/fp32", "resnet18", 5.0)])

        found = read_measured([tmp_path / "few.jsonl"], RPI5)

        assert found.notes == (f"{tmp_path / 'few.jsonl'}: what was measured on pi is taken for rpi5",)

    def test_of_several_platforms_the_one_that_is_meant_counts(self, tmp_path: Path) -> None:
        records = [
            measured_on(platform, "resnet18", latency_ms)
            for platform, latency_ms in (
                ("rpi5/tflite-2.17/cpu4/fp32", 1.0), ("rpi5/tflite-2.17/cpu1/fp32", 2.0), ("rpi5/tflite-2.17/cpu1/int8", 3.0),
                ("rpi5/ncnn-2.17/cpu1/fp32", 4.0), ("rpi5/tflite-2.10/cpu1/fp32", 5.0), ("pixel4/tflite-2.17/cpu1/fp32", 6.0),
            )
        ]  # fmt: skip
        jsonlines.write(tmp_path / "few.jsonl", records)

        assert read(tmp_path / "few.jsonl") == {"resnet18": 2.0}
        with pytest.raises(DatasetError, match=r"pixel4/tflite-2.17/cpu1/fp32, rpi5/.*, which may all be meant"):
            read(tmp_path / "few.jsonl", platform=replace(RPI5, device="new"))
        with pytest.raises(DatasetError, match=r"expected runtime tflite-2.17, unit gpu and precision fp32"):
            read(tmp_path / "few.jsonl", platform=replace(RPI5, unit="gpu"))

    def test_failed_measurements_and_kernels_are_ignored(self, tmp_path: Path) -> None:
        records = [
            measured_on(RPI5.id, "resnet18", None),
            measured_on(RPI5.id, "resnet34", 7.0),
            measured_on(RPI5.id, "resnet50", 9.0, role="kernel"),
        ]
        jsonlines.write(tmp_path / "few.jsonl", records)
        jsonlines.write(tmp_path / "none.jsonl", records[:1])

        found = read_measured([tmp_path / "few.jsonl"], RPI5)

        assert found.latency_ms == {model("resnet34"): 7.0}
        assert found.notes == (
            f"{tmp_path / 'few.jsonl'}: no latency of resnet18, whose measuring failed (resnet18: out of memory)",
        )
        with pytest.raises(DatasetError, match="no measurement of a network that succeeded"):
            read_measured([tmp_path / "none.jsonl"], RPI5)

    def test_a_line_that_is_no_measurement_is_refused_with_its_number(self, tmp_path: Path) -> None:
        jsonlines.write(tmp_path / "few.jsonl", [measured_on(RPI5.id, "resnet18", 5.0)])
        with (tmp_path / "few.jsonl").open("a") as file:
            file.write('{"model": "resnet18"}\n')

        with pytest.raises(DatasetError, match=r"few\.jsonl:2: "):
            read_measured([tmp_path / "few.jsonl"], RPI5)


class TestTools:
    def kit(self, folder: Path) -> Path:
        """A kit's folder with runs of TFLite's tool, three on the CPU and one that profiled."""
        KitManifest((KitNetwork("squeezenet1_1", model("squeezenet1_1")),)).write(folder)
        results = folder / "results" / "rpi5-cpu1"
        results.mkdir(parents=True)
        header = "# latcast network=squeezenet1_1 device=rpi5 threads=1 precision=fp32 unit=cpu1 version=2.17\n"
        recorded = (RECORDED / "tflite.txt").read_text()
        for number, median in enumerate(("23905", "23805", "24005")):
            text = recorded.replace("median=23905", f"median={median}")
            (results / f"squeezenet1_1.{number}.txt").write_text(header + text)
        other = header.replace("unit=cpu1", "unit=1large")
        (folder / "results" / "large.txt").write_text(other + recorded)
        return folder

    def test_a_kit_s_folder_gives_the_runs_of_the_platform(self, tmp_path: Path) -> None:
        folder = self.kit(tmp_path)

        found = read_measured([folder], RPI5)

        assert found.latency_ms == {model("squeezenet1_1"): 23.905}
        assert found.networks[0].values_ms == (23.905, 23.805, 24.005)
        assert found.notes == (
            f"{folder}: what was measured on rpi5/tflite-2.17/1large/fp32 is left out",
            "of several values of one network the median counts: squeezenet1_1 (3)",
        )

    def test_measurements_of_other_platforms_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match=r"expected runtime ncnn-1.0, unit cpu1 and precision fp32"):
            read_measured([self.kit(tmp_path)], Platform.parse("rpi5/ncnn-1.0/cpu1/fp32"))

    def test_output_that_does_not_say_where_it_ran_is_of_the_new_device(self, tmp_path: Path) -> None:
        shutil.copy(RECORDED / "tflite.txt", tmp_path / "squeezenet1_1.txt")

        assert list(read(tmp_path / "squeezenet1_1.txt").values()) == [23.905]
        with pytest.raises(DatasetError, match="it ran on 1 threads"):
            read(tmp_path / "squeezenet1_1.txt", platform=replace(RPI5, unit="cpu4"))

    def test_a_version_that_is_not_stated_is_any(self, tmp_path: Path) -> None:
        shutil.copy(RECORDED / "benchmark_app.txt", tmp_path / "squeezenet1_1.txt")

        assert list(read(tmp_path / "squeezenet1_1.txt", platform=Platform.parse("x/openvino-unstated/cpu1/fp32"))) != []


def test_missing_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"cannot read measured latencies from .*nosuch.csv"):
        read_measured([tmp_path / "nosuch.csv"], RPI5)
    with pytest.raises(DatasetError, match="holds no results"):
        read_measured([tmp_path], RPI5)
    with pytest.raises(DatasetError, match="found no file"):
        read_measured([], RPI5)


@pytest.mark.parametrize("file", corpus_files("bench/*", "jsonl/*", "targeted/*.jsonl*"), ids=lambda file: file.name)
def test_files_that_broke_readers_are_refused_in_one_line_or_read(file: Path) -> None:
    found = outcome(file)

    assert str(found).isprintable() if isinstance(found, LatcastError) else found.networks


class TestUnits:
    TYPICAL = np.array([10.0, 20.0, 40.0, np.nan])

    def measured(self, *latencies_ms: float) -> MeasuredNetworks:
        return MeasuredNetworks(
            tuple(
                MeasuredNetwork(Reference("resnet", {"n": index}, f"net{index}"), value, (value,), (f"few.csv:{index + 2}",))
                for index, value in enumerate(latencies_ms)
            )
        )

    def test_milliseconds_stay_as_they_are(self) -> None:
        given = self.measured(30.0, 10.0, 200.0, 1e9)

        assert in_milliseconds(given, self.TYPICAL, "") is given

    def test_seconds_and_microseconds_are_doubted_and_never_guessed(self) -> None:
        given = self.measured(0.011, 0.019, 0.05, 0.1)

        found = in_milliseconds(given, self.TYPICAL, "s")

        assert list(found.latency_ms.values()) == pytest.approx([11, 19, 50, 100])
        assert found.networks[0].values_ms == pytest.approx((11,))
        # 0.011 of 10 ms is the median.
        with pytest.raises(DatasetError, match=r"909 times below .* as seconds taken for milliseconds"):
            in_milliseconds(given, self.TYPICAL, "")
        with pytest.raises(DatasetError, match=r"1,100 times above .* as microseconds taken for milliseconds"):
            in_milliseconds(self.measured(11_000.0, 22_000.0, 44_000.0), self.TYPICAL[:3], "")

    def test_a_device_up_to_a_hundred_times_as_fast_or_slow_is_believed(self) -> None:
        for times in (0.0101, 1.0, 99.0):
            given = self.measured(*(times * each for each in self.TYPICAL[:3]))
            assert in_milliseconds(given, self.TYPICAL[:3], "") is given

    def test_a_unit_that_is_said_is_not_doubted(self) -> None:
        given = self.measured(0.011, 19.0, 50_000.0, 0.1)

        assert in_milliseconds(given, self.TYPICAL, "ms") is given
        assert list(in_milliseconds(given, self.TYPICAL, "us").latency_ms.values()) == pytest.approx([1.1e-5, 0.019, 50.0, 1e-4])

    def test_one_in_another_unit_than_the_rest_is_refused_with_its_line(self) -> None:
        with pytest.raises(
            DatasetError, match=r"^few.csv:3: net1 takes 1e\+03 times what the others say of this device: hardly of"
        ):
            in_milliseconds(self.measured(10.0, 20_000.0, 40.0), self.TYPICAL[:3], "")

    def test_two_that_contradict_each_other_are_both_named(self) -> None:
        with pytest.raises(DatasetError, match=r"few.csv:2: net0 .*; few.csv:3: net1"):
            in_milliseconds(self.measured(10.0, 20_000.0), self.TYPICAL[:2], "")

    def test_without_a_known_device_nothing_is_doubted(self) -> None:
        given = self.measured(1e-3, 1e6)

        assert in_milliseconds(given, np.full(2, np.nan), "") is given
