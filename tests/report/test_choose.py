"""Choosing a network: the front, budgets and certainty, own candidates; named networks as predicted one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import DatasetError, LatcastError, ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.writers.onnx import to_onnx
from latcast.networks import models_listed
from latcast.platforms import load
from latcast.predictors.conditions import Conditions
from latcast.predictors.contention import keep_factors
from latcast.predictors.intervals import Interval
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.starts import StartLaw, StartModel
from latcast.report.choose import choose, front_of
from latcast.spaces.accuracies import read_accuracies
from latcast.spaces.catalogue import build, model, models
from latcast.spaces.named_kernels import named_kernels, rated_networks

PHONE = "pixel4/tflite-2.10/1large/fp32"
GPU = "pixel4/tflite-2.10/gpu/fp16"


def network(name: str, channels: int) -> Graph:
    """Two convolutions: the more channels, the slower."""
    b = GraphBuilder(name)
    x = b.relu(b.conv(b.input((1, 16, 56, 56)), channels, 3))
    return b.finish(b.global_average_pool(b.conv(x, channels, 3)))


@pytest.fixture(scope="module")
def phone() -> PlatformPredictor:
    """With an interval from half to twice the prediction, which covers 90 % of networks."""
    return replace(load(PHONE), interval=Interval(0.5, 2.0, 100, 0.0))


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return [network("small", 32), network("middle", 64), network("large", 128)]


ACCURACIES = {"small": 70.0, "middle": 75.0, "large": 80.0}


@pytest.mark.parametrize(
    ("quality", "cost", "able", "front"),
    [
        ([70.0, 70.0], [[1.0], [2.0]], [True, True], [True, False]),  # as accurate and faster
        ([70.0, 70.0], [[1.0], [1.0]], [True, True], [True, True]),  # equal
        ([70.0, 75.0], [[2.0], [1.0]], [True, False], [True, True]),  # what is not covered beats nothing
        # The first is faster on the first platform, the second on the second; the third is slower on both.
        ([70.0, 75.0, 60.0], [[1.0, 5.0], [2.0, 4.0], [2.0, 5.0]], [True, True, True], [True, True, False]),
    ],
)
def test_the_front_is_what_no_network_beats(
    quality: list[float], cost: list[list[float]], able: list[bool], front: list[bool]
) -> None:
    assert front_of(np.array(quality), np.array(cost), np.array(able)).tolist() == front


class TestBudget:
    def test_a_network_at_its_upper_bound_fits_with_95_percent(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        # 90 % lie between both bounds, 5 % above the upper one.
        latency_ms = phone.predict(graphs[0]).latency_ms

        found = choose(phone, models=graphs[:1], max_ms=2 * latency_ms).candidates[0].decisive

        assert found.probability == pytest.approx(0.95, abs=1e-6)
        assert found.high_ms == pytest.approx(2 * latency_ms)

    def test_a_prediction_at_the_limit_is_as_likely_within_as_beyond_it(
        self, phone: PlatformPredictor, graphs: list[Graph]
    ) -> None:
        latency_ms = phone.predict(graphs[0]).latency_ms

        [found] = choose(phone, models=graphs[:1], max_ms=latency_ms).candidates

        assert found.decisive.probability == pytest.approx(0.5)
        assert found.fits is False

    def test_the_latency_kept_to_with_95_percent_is_the_upper_bound(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        [found] = choose(phone, models=graphs[:1], certainty=0.95).candidates

        assert found.decisive.kept_ms == pytest.approx(found.decisive.high_ms)
        assert found.fits is None

    def test_the_pick_is_the_most_accurate_that_fits(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        middle_ms, large_ms = (phone.predict(graph).latency_ms for graph in graphs[1:])
        # 2 to the power of 1.2816 / 1.6449 is what 90 % keep to.
        limit_ms = 1.01 * 2**0.7791 * middle_ms
        assert limit_ms < 2**0.7791 * large_ms

        found = choose(phone, models=graphs, accuracies=ACCURACIES, max_ms=limit_ms)

        assert found.pick is not None
        assert found.pick.name == "middle"
        assert [each.name for each in found.candidates] == ["large", "middle", "small"]

    def test_without_a_fitting_network_there_is_no_pick(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        found = choose(phone, models=graphs, accuracies=ACCURACIES, max_ms=0.001)

        assert found.pick is None
        assert [each.fits for each in found.candidates] == [False, False, False]

    def test_without_accuracies_the_fastest_that_fits_is_picked(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        found = choose(phone, models=graphs, max_ms=10_000)

        assert found.pick is not None
        assert (found.pick.name, found.pick.accuracy) == ("small", None)

    def test_a_network_is_to_fit_on_every_platform(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        slow = load("pixel4/tflite-2.10/1small/fp32")
        limit_ms = 1.5 * 2**0.7791 * phone.predict(graphs[2]).latency_ms

        alone = choose(phone, models=graphs[2:], max_ms=limit_ms).candidates[0]
        both = choose([phone, slow], models=graphs[2:], max_ms=limit_ms).candidates[0]

        assert (alone.fits, both.fits) == (True, False)
        assert both.decisive.platform == slow.platform.id

    def test_a_network_with_little_coverage_on_one_platform_does_not_fit(
        self, phone: PlatformPredictor, graphs: list[Graph]
    ) -> None:
        """Without predictors of kernels nothing of a latency is covered."""
        unknown = replace(phone, platform=load("pixel4/tflite-2.10/1small/fp32").platform, kernels={})

        for platforms in ([phone, unknown], [unknown, phone]):
            assert not choose(platforms, models=graphs[:1], max_ms=1e6).candidates[0].fits
        assert choose(phone, models=graphs[:1], max_ms=1e6).candidates[0].fits

    def test_memory_is_limited_too(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        needed_mb = choose(phone, models=graphs[:1]).candidates[0].memory_bytes / 1e6

        enough, little = (
            choose(phone, models=graphs[:1], max_memory_mb=limit).candidates[0]
            for limit in (1.001 * needed_mb, 0.999 * needed_mb)
        )

        # Two maps of 56x56 with 32 channels, the input and the output; weights of both convolutions.
        assert needed_mb == pytest.approx((2 * 32 * 56**2 * 4 + 16 * 56**2 * 4 + 128 + (16 + 32) * 32 * 9 * 4) / 1e6)
        assert (enough.fits, little.fits) == (True, False)

    def test_candidates_with_more_parameters_are_left_out(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        assert [each.name for each in choose(phone, models=graphs, max_parameters=20_000).candidates] == ["small"]
        with pytest.raises(LatcastError, match="none of 3 candidates has at most 10 parameters; the fewest: "):
            choose(phone, models=graphs, max_parameters=10)

    def test_a_certainty_is_a_share(self, phone: PlatformPredictor) -> None:
        with pytest.raises(LatcastError, match="found the certainty 90, expected one between 0 and 1"):
            choose(phone, certainty=90)

    def test_an_interval_that_is_not_calibrated_is_a_warning(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        found = choose(replace(phone, interval=Interval()), models=graphs, accuracies=ACCURACIES)

        (warning,) = found.warnings
        assert f"{PHONE}: this bundle's interval is not calibrated" in warning


class TestWarnings:
    def test_published_accuracies_do_not_hold_in_8_bits(self, graphs: list[Graph]) -> None:
        quantised = load("pixel4/tflite-2.10/1large/int8")

        assert choose(quantised).warnings == ("accuracies are those of the published weights, before quantising to 8 bits",)
        assert choose(quantised, models=graphs, accuracies=ACCURACIES).warnings == ()

    def test_a_pick_without_accuracies_is_said_to_be_the_fastest(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        assert "no accuracy of the candidates is known" in choose(phone, models=graphs).warnings[0]

    def test_accuracies_that_are_of_no_candidate_are_named(self, phone: PlatformPredictor, graphs: list[Graph]) -> None:
        found = choose(phone, models=graphs, accuracies={**ACCURACIES, "smal": 71.0})

        assert found.warnings == ("smal: accuracies of no candidate",)

    def test_accuracies_without_candidates_are_refused(self) -> None:
        with pytest.raises(LatcastError, match="found accuracies, and no candidates that they are of"):
            choose(PHONE, accuracies=ACCURACIES)


class TestOwnCandidatesOfPublishedNames:
    def test_have_the_published_accuracy_unless_another_is_given(self) -> None:
        published = {each.name: each.top1_percent for each in models("mobilenet_v*")}

        found = choose(PHONE, models=["MobileNet-v2", "mobilenet_v1"], accuracies={"mobilenet_v1": 12.5})

        assert {each.name: each.accuracy for each in found.candidates} == {
            "mobilenet_v2": published["mobilenet_v2"], "mobilenet_v1": 12.5,
        }  # fmt: skip
        assert [each.trained_on for each in found.candidates] == ["imagenet-1k", None]
        assert found.warnings == ()

    def test_a_file_of_such_a_name_has_none(self, tmp_path: Path) -> None:
        file = tmp_path / "mobilenet_v2.onnx"
        file.write_bytes(to_onnx(build(model("mobilenet_v2", as_measured=True))))

        [found] = choose(PHONE, models=[file]).candidates

        assert found.accuracy is None


class TestNamedNetworks:
    @pytest.mark.parametrize("platform", [PHONE, GPU])
    def test_they_are_predicted_as_one_by_one(self, platform: str) -> None:
        predictor = load(platform)
        names = ["timm/tf_mobilenetv3_large_100", "timm/convnext_atto", "torchvision/resnet18", "timm/levit_128s"]

        found = {each.name: each.latencies[0] for each in choose(predictor).candidates}

        for each in predictor.predict_many(names):
            assert found[each.model].latency_ms == pytest.approx(each.latency_ms, rel=1e-9)
            assert (found[each.model].low_ms, found[each.model].high_ms) == pytest.approx((each.low_ms, each.high_ms), rel=1e-9)

    def test_all_have_an_accuracy_and_only_the_front_is_listed(self) -> None:
        found = choose(PHONE, max_ms=100)

        assert len(found.candidates) == len(rated_networks())
        kept = [each.latencies[0].kept_ms for each in found.front if each.familiar]
        assert kept == sorted(kept, reverse=True)
        assert found.pick is not None
        assert found.pick in found.front
        assert found.pick.accuracy == max(each.accuracy or 0.0 for each in found.candidates if each.fits)

    def test_weights_that_saw_more_images_can_be_left_out(self) -> None:
        everything, alone = (choose(PHONE, trained_on=images).candidates for images in ("more", "imagenet-1k"))

        assert {each.trained_on for each in alone} == {"imagenet-1k"}
        assert {each.trained_on for each in everything} == {"imagenet-1k", "imagenet-21k", "more"}
        best = {each.name: each.accuracy or 0.0 for each in everything}
        assert set(best) > {each.name for each in alone}
        assert all((each.accuracy or 0.0) <= best[each.name] for each in alone)

    def test_other_images_and_own_candidates_are_refused(self, graphs: list[Graph]) -> None:
        with pytest.raises(LatcastError, match="found trained_on 'jft', expected one of imagenet-1k, imagenet-21k, more"):
            choose(PHONE, trained_on="jft")
        with pytest.raises(LatcastError, match="trained_on is of the named networks"):
            choose(PHONE, models=graphs, trained_on="imagenet-1k")

    def test_their_memory_is_that_of_the_graphs(self) -> None:
        import latcast

        names = [each.name for each in rated_networks()]
        found = named_kernels(load(PHONE).rules)

        memory = latcast.memory("torchvision/resnet18", on=PHONE)

        assert found.reserved_bytes[names.index("torchvision/resnet18"), 0] == memory.reserved_bytes


class TestConditions:
    def test_networks_are_ranked_and_fit_by_the_latency_under_the_condition(
        self, phone: PlatformPredictor, graphs: list[Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
        keep_factors(phone.platform, {"memory": 3.0})
        asked = Conditions(beside=("memory",))
        limit_ms = 2 * phone.predict(graphs[1]).latency_ms
        expected = phone.predict(graphs[1], conditions=asked).contended[0]

        steady = choose(phone, models=graphs[1:2], max_ms=limit_ms).candidates[0]
        [slowed] = choose(phone, models=graphs[1:2], max_ms=limit_ms, conditions=asked).candidates

        assert (slowed.decisive.latency_ms, slowed.decisive.high_ms) == (expected.latency_ms, expected.high_ms)
        assert slowed.decisive.where == f"{phone.platform.id}, beside memory"
        assert (steady.decisive.probability or 0) > 0.5 > (slowed.decisive.probability or 0)

    def test_a_network_is_to_fit_under_each_condition(
        self, phone: PlatformPredictor, graphs: list[Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
        keep_factors(phone.platform, {"memory": 3.0, "compute": 1.0})

        [found] = choose(phone, models=graphs[:1], conditions=Conditions(beside=("compute", "memory"))).candidates

        assert [each.condition for each in found.latencies] == ["beside compute", "beside memory"]
        assert found.decisive.condition == "beside memory"

    def test_where_the_latency_is_not_known_a_network_is_named_and_not_ranked(
        self, phone: PlatformPredictor, graphs: list[Graph]
    ) -> None:
        found = choose(phone, models=graphs, max_ms=10_000, conditions=Conditions(minutes=30))

        assert (found.candidates, found.pick) == ((), None)
        assert repr(found).endswith(": no latency is known>")
        [(reason, names)] = found.unknown.items()
        assert f"the latency after 30 min on {phone.platform.id} is not known" in reason
        assert names == ("small", "middle", "large")
        assert found.notes == (f"small, middle, large: {reason}",)
        assert found.to_json()["unknown"] == [{"reason": reason, "models": list(names)}]

    def test_a_paced_network_fits_where_its_upper_bound_does(self) -> None:
        paced = Conditions(minutes=30, fps=1)
        [hot] = choose(GPU, models=["resnet18"], max_ms=1e4, conditions=paced).candidates
        bound_ms = hot.decisive.high_ms

        within, over = (
            choose(GPU, models=["resnet18"], max_ms=share * bound_ms, conditions=paced).candidates[0] for share in (1.01, 0.99)
        )

        assert (within.fits, over.fits) == (True, False)
        assert (within.decisive.latency_ms, within.decisive.probability) == (None, None)
        # 95 % lie below the upper bound: of more certainty nothing is known.
        assert choose(GPU, models=["resnet18"], certainty=0.96, conditions=paced).candidates == ()

    def test_the_start_of_named_networks_is_that_of_a_prediction(
        self, phone: PlatformPredictor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        few = [each for each in rated_networks() if each.name in ("timm/lcnet_050", "torchvision/resnet18")]
        monkeypatch.setattr("latcast.spaces.named_kernels.rated_networks", lambda: tuple(few))
        law = StartLaw({"nodes": 0.1, "weights_mb": 2.0, "activations_mb": 0.5}, 0.8, 1.25)
        started = replace(phone, start=StartModel(law, StartLaw({"latency": 1.5, "kernels": 0.01}, 0.9, 1.2), "two networks"))
        asked = Conditions(start=True)
        expected = started.predict_many([each.name for each in few], conditions=asked)

        found = {each.name: each.decisive.latency_ms for each in choose(started, conditions=asked).candidates}

        assert found == {each.model: pytest.approx(each.under_conditions()["until the first answer"][0]) for each in expected}


class TestOwnCandidates:
    def test_a_folder_stands_for_its_model_files(self, graphs: list[Graph], tmp_path: Path) -> None:
        for graph in graphs[:2]:
            (tmp_path / f"{graph.name}.onnx").write_bytes(to_onnx(graph))
        (tmp_path / "notes.txt").write_text("no model")

        assert [Path(str(each)).name for each in models_listed([tmp_path])] == ["middle.onnx", "small.onnx"]

    def test_accuracies_are_found_by_the_names_of_files(
        self, phone: PlatformPredictor, graphs: list[Graph], tmp_path: Path
    ) -> None:
        for graph in graphs[:2]:
            (tmp_path / f"{graph.name}.onnx").write_bytes(to_onnx(graph))

        found = choose(phone, models=[tmp_path], accuracies={"small": 70.0, "middle.onnx": 75.0})

        assert [each.accuracy for each in found.candidates] == [75.0, 70.0]

    def test_a_folder_without_models_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="found no model file in this folder"):
            models_listed([tmp_path])


class TestAccuracies:
    def write(self, folder: Path, text: str) -> Path:
        path = folder / "accuracies.csv"
        path.write_text(text)
        return path

    def test_they_are_read_by_model(self, tmp_path: Path) -> None:
        assert read_accuracies(self.write(tmp_path, "model,accuracy\na.onnx,71.5\nb,80\n")) == {"a.onnx": 71.5, "b": 80.0}

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("name,top1\na,70\n", "found the header 'name,top1', expected 'model,accuracy'"),
            ("model,accuracy\na,good\n", "line 2: found 'a,good', expected a model and a number"),
            ("model,accuracy\na,0.7\nb,7000\n", "line 3: found the accuracy 7000, expected percent"),
        ],
    )
    def test_a_malformed_line_is_named_by_its_number(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(DatasetError, match=said):
            read_accuracies(self.write(tmp_path, text))
