"""Bundles: what is saved comes back, and what is damaged, foreign or unsafe is refused with a reason."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from latcast import __version__
from latcast.errors import BundleError
from latcast.graph.ir import Graph
from latcast.kernels.types import KERNEL_TYPES
from latcast.predictors.bundle import BUNDLE_SCHEMA, load_bundle, read_summary, save_bundle
from latcast.predictors.kernel_predictor import KernelPredictor, kernel_models
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.regressors.gaussian_process import GaussianProcessCorrection, SizeCovariance
from latcast.predictors.starts import StartLaw, StartModel
from tests.predictors.made_up_platform import CARD, graphs_of, make_predictor


@pytest.fixture(scope="module")
def networks() -> list[Graph]:
    return graphs_of({"mobilenet_v2": 2, "resnet": 1, "vit": 1, "squeezenet": 1}, seed=9)


@pytest.fixture(scope="module")
def saved(predictor: PlatformPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bundle(predictor, tmp_path_factory.mktemp("saved") / "bundle")


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A bundle to damage."""
    return Path(shutil.copytree(saved, tmp_path / "bundle"))


def _by_gaussian_process(found: KernelPredictor) -> KernelPredictor:
    """The same kernels, by a Gaussian-process correction."""
    names = ("group_in_channels", "out_channels", "output_pixels", "kernel_h", "stride_h")
    covariance = SizeCovariance(np.ones(len(names)), 2, level=0.25, path=0.2, smooth=0.3, own=0.1)
    correction = GaussianProcessCorrection.of(covariance, np.array([[64, 128, 49, 3, 1]]), np.array([0.5]))
    return replace(found, model="analytical_gp", regressor=correction, features=names)


class TestSavingAndLoading:
    @pytest.mark.parametrize("name", ["bundle", "bundle.zip", "local-1.31", "deep/down/bundle.zip"])
    def test_a_loaded_predictor_predicts_what_the_saved_one_does(
        self, predictor: PlatformPredictor, networks: list[Graph], tmp_path: Path, name: str
    ) -> None:
        path = save_bundle(predictor, tmp_path / name)

        loaded = load_bundle(path)

        assert path == tmp_path / name
        assert loaded.predict_many(networks, breakdown=True) == predictor.predict_many(networks, breakdown=True)
        assert (loaded.platform, loaded.rules, loaded.network, loaded.interval, dict(loaded.card)) == (
            predictor.platform, predictor.rules, predictor.network, predictor.interval, CARD,
        )  # fmt: skip

    def test_a_compressed_zip_is_smaller_and_predicts_the_same(
        self, predictor: PlatformPredictor, networks: list[Graph], tmp_path: Path
    ) -> None:
        plain, small = tmp_path / "plain.zip", tmp_path / "small.zip"
        save_bundle(predictor, plain)
        save_bundle(predictor, small, compressed=True)

        assert small.stat().st_size < 0.7 * plain.stat().st_size
        assert load_bundle(small).predict_many(networks) == load_bundle(plain).predict_many(networks)

    @pytest.mark.parametrize("model", kernel_models())
    def test_every_model_survives(
        self, samples: dict[str, tuple[np.ndarray, np.ndarray]], networks: list[Graph], tmp_path: Path, model: str
    ) -> None:
        chosen = {name: samples[name] for name in ("conv", "linear")}
        predictor = make_predictor(model, chosen)

        loaded = load_bundle(save_bundle(predictor, tmp_path / "bundle.zip"))

        np.testing.assert_allclose(loaded.latencies_ms(networks), predictor.latencies_ms(networks), rtol=1e-9)
        assert {name: found.model for name, found in loaded.kernels.items()} == {"conv": model, "linear": model}

    def test_a_correction_learned_from_whole_networks_survives(
        self, predictor: PlatformPredictor, networks: list[Graph], tmp_path: Path
    ) -> None:
        made = replace(predictor, kernels={"conv": _by_gaussian_process(predictor.kernels["conv"])})

        loaded = load_bundle(save_bundle(made, tmp_path / "bundle"))

        assert loaded.kernels["conv"].model == "analytical_gp"
        assert loaded.predict_many(networks) == made.predict_many(networks)

    def test_the_block_that_convolutions_are_computed_in_survives(
        self, predictor: PlatformPredictor, networks: list[Graph], tmp_path: Path
    ) -> None:
        made = replace(predictor, analytical=replace(predictor.analytical, block=32))

        loaded = load_bundle(save_bundle(made, tmp_path / "bundle"))

        assert loaded.analytical.block == 32
        assert loaded.predict_many(networks) == made.predict_many(networks) != predictor.predict_many(networks)

    @pytest.mark.parametrize("block", [-1, 1.5, 4096, "16"])
    def test_a_block_that_no_library_has_is_refused(self, folder: Path, block: object) -> None:
        edit("platform.json", lambda document: document["physical"].update(block=block))(folder)

        with pytest.raises(BundleError, match=rf"platform.json: .*found blocks of {block} channels"):
            load_bundle(folder)

    @pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
    def test_the_same_predictor_gives_the_same_bytes(self, predictor: PlatformPredictor, tmp_path: Path, name: str) -> None:
        first, second = (save_bundle(predictor, tmp_path / place / name) for place in ("here", "there"))
        again = save_bundle(load_bundle(first), tmp_path / "reloaded" / name)

        assert contents(first) == contents(second) == contents(again)

    def test_a_feature_that_came_later_changes_nothing(
        self, predictor: PlatformPredictor, networks: list[Graph], folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        conv = KERNEL_TYPES.get("conv")
        before = predictor.latencies_ms(networks)
        later = replace(conv, features=lambda columns: {"doubled": columns["out_h"] * 2, **conv.features(columns)})
        monkeypatch.setitem(KERNEL_TYPES._loaded, "conv", later)

        loaded = load_bundle(folder)

        assert "doubled" not in (loaded.kernels["conv"].features or ())
        np.testing.assert_allclose(loaded.latencies_ms(networks), before, rtol=1e-9)

    def test_a_bundle_from_before_a_field_is_to_be_made_again(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        conv = KERNEL_TYPES.get("conv")
        later = replace(conv, own_fields=(*conv.own_fields, "swizzle"))
        monkeypatch.setitem(KERNEL_TYPES._loaded, "conv", later)

        with pytest.raises(
            BundleError, match=f"'conv' of {len(conv.fields)} fields, expected {len(conv.fields) + 1}.*latcast train"
        ):
            load_bundle(folder)

    def test_a_bundle_replaces_an_older_one(self, predictor: PlatformPredictor, folder: Path) -> None:
        (folder / "kernels" / "resize.safetensors").write_bytes(b"left over")

        save_bundle(predictor, folder)

        assert load_bundle(folder).platform == predictor.platform
        assert [path.name for path in folder.parent.iterdir()] == ["bundle"]

    def test_a_predictor_of_nothing_is_a_bundle_too(self, predictor: PlatformPredictor, tmp_path: Path) -> None:
        bare = PlatformPredictor(predictor.platform, predictor.rules, predictor.analytical, {})

        loaded = load_bundle(save_bundle(bare, tmp_path / "bare.zip"))

        assert (loaded.kernels, loaded.card) == ({}, {})

    def test_it_is_small(self, folder: Path) -> None:
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 20e6

    def test_loading_imports_no_training_library(self, folder: Path) -> None:
        script = (
            "import sys; from latcast.predictors.bundle import load_bundle\n"
            f"load_bundle({str(folder)!r})\n"
            "print([m for m in ('lightgbm', 'sklearn', 'scipy', 'onnx', 'onnxruntime', 'torch', 'pickle5') if m in sys.modules])"
        )
        finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

        assert (finished.stdout.strip(), finished.stderr) == ("[]", "")


def contents(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {"": path.read_bytes()}
    return {place.relative_to(path).as_posix(): place.read_bytes() for place in path.rglob("*") if place.is_file()}


class TestCard:
    def test_the_summary_needs_no_predictors(self, folder: Path) -> None:
        for place in (folder / "kernels").iterdir():
            place.write_bytes(b"not looked at")

        platform, card = read_summary(folder)

        assert platform.id == "local/onnxruntime-1.31/cpu1/fp32"
        assert card == CARD

    def test_numpy_numbers_and_nan_become_json(self, predictor: PlatformPredictor, tmp_path: Path) -> None:
        card = {
            "mape": np.float64(4.5),
            "networks": np.int64(3),
            "spearman": float("nan"),
            "learn_from": ("a", "b"),
            "of": {1, 2},
        }

        save_bundle(predictor.with_card(card), tmp_path / "bundle")

        assert read_summary(tmp_path / "bundle")[1] == {
            "mape": 4.5, "networks": 3, "spearman": None, "learn_from": ["a", "b"], "of": [1, 2],
        }  # fmt: skip

    def test_a_card_that_json_cannot_hold_is_refused_before_writing(self, predictor: PlatformPredictor, tmp_path: Path) -> None:
        with pytest.raises(BundleError, match="the card's 'model' holds a type, expected text, numbers"):
            save_bundle(predictor.with_card({"model": dict}), tmp_path / "bundle")

        assert list(tmp_path.iterdir()) == []

    def test_the_card_states_training_data_errors_and_licence(self, folder: Path) -> None:
        text = (folder / "CARD.md").read_text(encoding="utf-8")

        for line in (
            "# local/onnxruntime-1.31/cpu1/fp32",
            "| trained on | made-up latencies |",
            "| licence of the data | CC0-1.0 |",
            "| measurements | 1200 |",
            "Networks: 32. Held out by: family.",
            "| MAPE, % | 4.25 |",
            "| within ±5 %, % of networks | 70 |",
            "| inside the 90 % interval, % of networks | 90.6 |",
            "| label error (MAPE), % | 2.1 |",
            "| host cpu model | an imagined CPU |",
        ):
            assert line in text.splitlines()

    def test_the_text_gives_throughputs(self, predictor: PlatformPredictor, folder: Path) -> None:
        flops, _, _, count = predictor.analytical.coefficients["any"]

        [row] = [line for line in (folder / "CARD.md").read_text().splitlines() if line.startswith("| any |")]

        cells = [cell.strip() for cell in row.split("|")]
        assert float(cells[2]) == pytest.approx(1e-6 / flops, rel=1e-3)
        assert float(cells[5]) == pytest.approx(1e3 * count, rel=1e-3)

    def test_missing_facts_are_shown_as_not_stated(self, predictor: PlatformPredictor, tmp_path: Path) -> None:
        text = (save_bundle(predictor.with_card({}), tmp_path / "bundle") / "CARD.md").read_text()

        assert "| MAPE, % | not stated |" in text.splitlines()
        assert "nan" not in text


def edit(name: str, change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """A change of a JSON file."""

    def damage(folder: Path) -> None:
        document = json.loads((folder / name).read_text())
        change(document)
        (folder / name).write_text(json.dumps(document))

    return damage


def write(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(data) and None


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def edit_arrays(name: str, change: Callable[[dict[str, np.ndarray]], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        arrays = {key: array.copy() for key, array in load((folder / name).read_bytes()).items()}
        change(arrays)
        (folder / name).write_bytes(save(arrays))

    return damage


def bend(values: dict[str, Any], *path: Any) -> None:
    """Changes a number a little, deep inside a document."""
    *before, last = path
    for key in before:
        values = values[key]
    values[last] *= 1 + 1e-5


CONV = "kernels/conv.safetensors"
DOCUMENTS = ("platform.json", "fusion_rules.json", "golden.json", "card.json")


class TestDamage:
    def refusal(self, folder: Path) -> str:
        with pytest.raises(BundleError) as caught:
            load_bundle(folder)
        text = str(caught.value)
        assert text.startswith(f"{folder}: ")
        assert "\n" not in text
        return text.removeprefix(f"{folder}: ")

    @pytest.mark.parametrize("name", [*DOCUMENTS, "CARD.md", CONV])
    def test_a_missing_file_is_named(self, folder: Path, name: str) -> None:
        remove(name)(folder)

        assert self.refusal(folder) == f"{name}: found no such file, expected one in every bundle; get the bundle again"

    @pytest.mark.parametrize("name", DOCUMENTS)
    @pytest.mark.parametrize("data", [b"{", b"", b"\xff\xfe", b"[" * 100_000, b'{"schema": NaN}'])
    def test_a_file_without_json_is_named(self, folder: Path, name: str, data: bytes) -> None:
        write(name, data)(folder)

        text = self.refusal(folder)
        assert text.startswith(f"{name}: found no JSON: ")
        assert text.endswith("the bundle is damaged, get it again")

    @pytest.mark.parametrize("name", DOCUMENTS)
    @pytest.mark.parametrize("data", [b"[1]", b'{"platform": 1}', b'{"schema": "one"}'])
    def test_a_document_without_a_schema_is_refused(self, folder: Path, name: str, data: bytes) -> None:
        write(name, data)(folder)

        assert self.refusal(folder).startswith(f"{name}: found no schema version")

    @pytest.mark.parametrize("name", DOCUMENTS)
    def test_a_newer_schema_asks_for_an_update(self, folder: Path, name: str) -> None:
        edit(name, lambda document: document.update(schema=BUNDLE_SCHEMA + 1))(folder)

        assert self.refusal(folder) == (
            f"{name}: found schema {BUNDLE_SCHEMA + 1}, expected {BUNDLE_SCHEMA} or older; update latcast to read it"
        )

    @pytest.mark.parametrize(
        ("key", "value"), [("networks", [3]), ("mape", "5"), ("warning", 1), ("training_networks", [1]), ("nearest", {})]
    )
    def test_a_card_with_another_kind_of_value_is_refused(self, folder: Path, key: str, value: object) -> None:
        edit("card.json", lambda document: document.update({key: value}))(folder)

        assert self.refusal(folder).startswith("card.json: found ")
        assert f"'{key}'" in self.refusal(folder)

    @pytest.mark.parametrize("part", ["same_lineages", "networks_of_others", "random_networks"])
    def test_a_part_of_a_card_with_another_kind_of_value_is_refused(self, folder: Path, part: str) -> None:
        edit("card.json", lambda document: document.update({part: {"mape": [5.0], "networks": 3}}))(folder)

        assert f"'{part}.mape'" in self.refusal(folder)

    def test_an_unreadable_bundle_of_an_older_schema_is_called_old(self, folder: Path) -> None:
        def older(document: dict[str, Any]) -> None:
            document.update(schema=1, network={"kind": "affine", "constant": 1})
            del document["latcast"]

        edit("platform.json", older)(folder)

        text = self.refusal(folder)
        assert "a latcast before 0.2 wrote the bundle (schema 1, this one writes" in text
        assert "latcast train STORE --replace" in text
        assert "damaged" not in text

    def test_the_version_that_wrote_a_bundle_stands_in_it(self, folder: Path) -> None:
        assert json.loads((folder / "platform.json").read_text())["latcast"] == __version__

    @pytest.mark.parametrize("change", [{"later": 1}, {"kernels": {"conv": {"later": 1}}}])
    def test_unknown_fields_are_refused(self, folder: Path, change: dict[str, Any]) -> None:
        edit("platform.json", lambda document: document.update(change))(folder)

        assert "found 'later', expected some of " in self.refusal(folder)

    @pytest.mark.parametrize("name", ["platform.json", "CARD.md", CONV])
    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    def test_a_pickle_is_refused_unopened(self, folder: Path, name: str, protocol: int) -> None:
        write(name, pickle.dumps({"model": [1.0] * 100}, protocol=protocol))(folder)

        assert self.refusal(folder).startswith(f"{name}: found a pickle, expected JSON, text or safetensors")

    def test_a_kernel_file_that_the_index_does_not_name_is_refused(self, folder: Path) -> None:
        write("kernels/resize.safetensors", save({"low": np.zeros(1)}))(folder)

        assert self.refusal(folder).startswith("kernels/resize.safetensors: found a file that platform.json does not name")

    def test_a_link_is_refused(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere.json").write_text("{}")
        remove("card.json")(folder)
        (folder / "card.json").symlink_to(tmp_path / "elsewhere.json")

        assert self.refusal(folder).startswith("card.json: found a link or a device, expected a file")

    def test_a_folder_around_the_bundle_is_refused(self, folder: Path) -> None:
        with pytest.raises(BundleError, match=r"found the folder 'bundle', expected platform\.json at the top"):
            load_bundle(folder.parent)

    @pytest.mark.parametrize("data", [b"", b"\x10\x00", b"\xff" * 64, b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
    def test_a_damaged_kernel_file_is_named(self, folder: Path, data: bytes) -> None:
        write(CONV, data)(folder)

        text = self.refusal(folder)
        assert text.startswith(f"{CONV}: found no ")
        assert text.endswith("the bundle is damaged, get it again")

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (edit_arrays(CONV, lambda arrays: arrays.pop("high") is None), "found no 'high'"),
            (edit_arrays(CONV, lambda arrays: arrays.update(low=arrays["low"][:-1])), "found a range of shape"),
            (edit_arrays(CONV, lambda arrays: arrays.update(low=arrays["low"] / 2)), "found a range of shape"),
            (edit_arrays(CONV, lambda arrays: arrays.pop("regressor.value") is None), "regressor lacks its array 'value'"),
            (edit_arrays(CONV, lambda arrays: arrays["regressor.left"].fill(-5)), "a tree ensemble is damaged"),
            (edit_arrays(CONV, lambda a: a.update({"regressor.value": a["regressor.value"].astype("f2")})), "float16"),
        ],
    )
    def test_a_kernel_file_with_other_arrays_is_refused(self, folder: Path, damage: Callable[[Path], None], reason: str) -> None:
        damage(folder)

        text = self.refusal(folder)
        assert text.startswith(f"{CONV}: ")
        assert reason in text

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda d: d.update(platform="local/cpu"), "'local/cpu' is not a platform id"),
            (lambda d: d.pop("physical"), "found no 'physical'"),
            (lambda d: d["physical"].update(terms=["flops"]), "found the analytical terms ['flops'], expected"),
            (lambda d: d["physical"]["terms"].append("magic"), "'magic'], expected"),
            (lambda d: d["physical"]["coefficients_ms"].pop("any"), "no coefficients of the class 'any'"),
            (lambda d: d["physical"]["coefficients_ms"].update(any=[1, 2]), "found 2 coefficients of 'any', expected 4"),
            (lambda d: d["physical"]["coefficients_ms"].update(any=[1, 2, 3, -4]), "found -4, expected a finite number"),
            (lambda d: d["physical"]["coefficients_ms"].update(any=[1, 2, 3, 1e999]), "found no JSON"),
            (lambda d: d["network"].update(constant_ms="much"), "could not convert string to float"),
            (lambda d: d["network"].update(constant_ms=-1), "found -1.0, expected a finite number"),
            (lambda d: d["network"].pop("weights"), "found no 'weights'"),
            (lambda d: d["interval"].update(low=0), "found an interval that begins at 0"),
            (lambda d: d["interval"].update(low=3), "expected a finite number of at least 0"),
            (lambda d: d["interval"].pop("networks"), "found no 'networks'"),
            (lambda d: d.update(kernels=[]), None),
            (lambda d: d["kernels"].update(warp=d["kernels"]["conv"]), "found the kernel type 'warp', expected one of"),
            (
                lambda d: d["kernels"]["conv"].update(fields=["a"]),
                "found fields of 'conv' unknown here: 'a', expected some of its 18",
            ),
            (
                lambda d: d["kernels"]["conv"].update(features=["a"]),
                "found features of 'conv' unknown here: 'a'",
            ),
            (lambda d: d["kernels"]["conv"].update(file="../../etc/passwd"), "expected a known one"),
            (lambda d: d["kernels"]["conv"].update(model="oracle"), "found the model 'oracle'"),
            (lambda d: d["kernels"]["conv"].update(regressor="oracle"), "no regressor is called 'oracle'"),
            (lambda d: d["kernels"].update(conv=None), "'NoneType' object is not iterable"),
        ],
    )
    def test_a_platform_file_with_other_content_is_refused(
        self, folder: Path, change: Callable[[dict[str, Any]], None], reason: str | None
    ) -> None:
        edit("platform.json", change)(folder)

        text = self.refusal(folder)
        assert reason is None or reason in text


class TestGoldenValues:
    refusal = TestDamage.refusal

    def test_they_span_what_each_type_was_trained_on(self, predictor: PlatformPredictor, folder: Path) -> None:
        golden = json.loads((folder / "golden.json").read_text())

        assert set(golden["kernels"]) == set(predictor.kernels)
        for name, entry in golden["kernels"].items():
            assert predictor.kernels[name].low.tolist() in entry["configurations"]
            assert predictor.kernels[name].high.tolist() in entry["configurations"]
            assert all(latency_ms > 0 for latency_ms in entry["latency_ms"])
        assert [entry["name"] for entry in golden["networks"]][2:] == ["resnet18", "mobilenet_v3_small", "deit_tiny_16"]
        assert all(entry["low_ms"] < entry["latency_ms"] < entry["high_ms"] for entry in golden["networks"])

    def test_one_network_holds_what_no_predictor_covers(self, folder: Path) -> None:
        golden = json.loads((folder / "golden.json").read_text())

        assert any(kind == "other" for entry in golden["networks"] for kind, _, _ in entry["kernels"])

    def test_a_change_of_coverage_does_not_refuse_a_bundle(self, folder: Path) -> None:
        expected = load_bundle(folder).platform
        edit("golden.json", lambda golden: [entry.update(covered_share=0.5) for entry in golden["networks"]])(folder)

        assert load_bundle(folder).platform == expected

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (edit("golden.json", lambda d: bend(d, "kernels", "conv", "latency_ms", 1)), "ms for the kernel conv (batch 1,"),
            (edit("golden.json", lambda d: bend(d, "networks", 1, "latency_ms")), "found latency_ms"),
            (edit("golden.json", lambda d: bend(d, "networks", 4, "low_ms")), "for the network deit_tiny_16, expected"),
            (edit("platform.json", lambda d: bend(d, "network", "constant_ms")), "for the network nothing but"),
            (edit("platform.json", lambda d: bend(d, "interval", "high")), "found high_ms"),
            (edit_arrays(CONV, lambda arrays: arrays["regressor.value"].__imul__(1.001)), "ms for the kernel conv"),
            (edit_arrays(CONV, lambda arrays: arrays["low"].__iadd__(1)), "for the network"),
        ],
    )  # fmt: skip
    def test_another_prediction_than_at_writing_is_refused(
        self, folder: Path, damage: Callable[[Path], None], reason: str
    ) -> None:
        damage(folder)

        text = self.refusal(folder)
        assert text.startswith("golden.json: found ")
        assert reason in text
        assert f"latcast {__version__} wrote the bundle" in text
        assert "latcast train STORE --replace" in text

    def test_rounding_differences_are_accepted(self, predictor: PlatformPredictor, folder: Path) -> None:
        def round_off(document: dict[str, Any]) -> None:
            document["networks"][0]["latency_ms"] *= 1 + 1e-8

        edit("golden.json", round_off)(folder)

        assert load_bundle(folder).platform == predictor.platform

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda d: d.pop("kernels"), "cannot be checked: KeyError('kernels')"),
            (lambda d: d["kernels"].pop("conv"), "found no values of conv, expected some"),
            (lambda d: d.update(networks=[]), "found no values of networks, expected some"),
            (lambda d: d["kernels"]["conv"].update(configurations=[[1]]), "cannot be checked: ValueError"),
            (lambda d: d["kernels"]["conv"].update(configurations="abc"), "cannot be checked: ValueError"),
            (lambda d: d["kernels"]["conv"]["latency_ms"].pop(), "cannot be checked: ValueError"),
            (lambda d: d["networks"][0]["kernels"].append(["conv", [1], 1]), "a conv of 1 fields"),
            (lambda d: d["networks"][0]["kernels"].append(["warp", [1], 1]), "no kernel type is called 'warp'"),
            (lambda d: d["networks"][2]["kernels"][0].__setitem__(2, 10**12), "kernels, expected at most 100000"),
            (lambda d: d["networks"][2]["kernels"][0].__setitem__(1, [10**30] * 9), "an integer of 31 digits"),
            (lambda d: d["networks"][0].pop("low_ms"), "cannot be checked: KeyError('low_ms')"),
        ],
    )
    def test_golden_values_of_another_form_are_refused(
        self, folder: Path, change: Callable[[dict[str, Any]], None], reason: str
    ) -> None:
        edit("golden.json", change)(folder)

        text = self.refusal(folder)
        assert text.startswith("golden.json: ")
        assert reason in text


def test_a_start_comes_back_and_is_on_the_card(tmp_path: Path, predictor: PlatformPredictor) -> None:
    start = StartModel(None, StartLaw({"latency": 1.25}, 0.9, 1.5), "twelve networks")

    path = save_bundle(replace(predictor, start=start), tmp_path / "started")

    assert load_bundle(path).start == start
    assert "Starts: twelve networks." in (path / "CARD.md").read_text(encoding="utf-8")
    assert load_bundle(save_bundle(predictor, tmp_path / "without.zip")).start is None
