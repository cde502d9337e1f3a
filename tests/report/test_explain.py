"""Why a network takes as long as it does, and what changes bring."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import LatcastError
from latcast.forecast import predict
from latcast.graph.builder import GraphBuilder
from latcast.graph.edits import with_relu
from latcast.graph.ir import Graph
from latcast.kernels import KERNEL_TYPES, find_kernels, kernel_type
from latcast.platforms import load
from latcast.predictors.analytical import TERMS, AnalyticalTerms
from latcast.predictors.calibration_terms import CalibrationTerms
from latcast.predictors.card import POSTERIOR, TRAINING_KEYS
from latcast.predictors.intervals import Interval
from latcast.predictors.kernel_predictor import KernelPredictor, Seen
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.report.explain import LEAST_SAVED_PERCENT, Explanation, explain
from latcast.spaces.catalogue import build, model

PHONE = "pixel4/tflite-2.10/gpu/fp16"


def bare(flops: float, moved: float, weights: float, count: float) -> PlatformPredictor:
    """A platform of these milliseconds a FLOP, an element, a weight and a kernel, known to the percent."""
    terms = AnalyticalTerms({"any": np.array([flops, moved, weights, count])}, TERMS)
    kernels = {}
    for name in KERNEL_TYPES:
        kinds = {field: tuple(range(len(codes))) for field, codes in kernel_type(name).kinds.items()}
        none = np.zeros(len(kernel_type(name).fields), dtype=np.int64)
        kernels[name] = KernelPredictor(name, "analytical", None, none, none + 10**9, 30, Seen(kinds, 1e12, 1e12))
    return replace(load(PHONE), analytical=terms, kernels=kernels, interval=Interval(0.99, 1.01, 200, 0.0))


@pytest.fixture(scope="module")
def mobile() -> Explanation:
    """MobileNetV3 on a phone's GPU: explained once, looked at often."""
    return explain("mobilenet_v3_large", on=PHONE)


def stepped(channels: int) -> Graph:
    b = GraphBuilder("net")
    x = b.conv_bn(b.input((1, 3, 32, 32)), channels, 3, activation="hard_swish")
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), 10))


def test_a_kernel_is_limited_by_the_largest_of_its_terms() -> None:
    # A 3x3 convolution from 3 to 16 channels of 32x32: 2*27*16*1024 = 884,736 FLOPs (and fused ones), 19,456 elements.
    graph = stepped(16)

    limits = [bare(*terms).predict(graph).kernels[0].limit for terms in ((1e-6, 1e-6, 0, 0), (1e-9, 1e-6, 0, 0), (0, 0, 0, 1.0))]

    assert limits == ["compute", "memory", "overhead"]
    assert bare(0, 0, 0, 0).predict(graph).kernels[0].limit == ""


def test_the_terms_of_limits_add_up_to_the_analytical_latency() -> None:
    phone = bare(1e-9, 1e-6, 1e-6, 1e-3)
    table = phone.estimate([find_kernels(build(model("resnet18")), phone.rules)]).table

    assert phone.limit_ms(table.configurations).sum(axis=1) == pytest.approx(phone.raw_kernel_latency_ms(table.configurations))


def test_the_parts_of_a_prediction_add_up_by_type_module_and_limit() -> None:
    found = predict("timm/resnet18", on=PHONE)

    whole_ms = found.latency_ms - found.overhead_ms
    assert sum(found.by_type().values()) == pytest.approx(whole_ms)
    assert sum(found.by_module().values()) == pytest.approx(whole_ms)
    assert sum(found.by_limit().values()) == pytest.approx(whole_ms)
    assert {"conv1", "layer1", "layer2", "layer3", "layer4", "fc"} <= set(found.by_module(1))
    assert found.by_module(1)["layer1"] == pytest.approx(sum(ms for name, ms in found.by_module().items() if "layer1" in name))
    convolution = next(kernel for kernel in found.kernels if kernel.module == "layer1.0.conv1")
    assert convolution.nodes == tuple(
        f"/layer1/layer1.0/{name}" for name in ("conv1/Conv", "bn1/BatchNormalization", "act1/Relu")
    )


def test_every_hint_is_the_prediction_of_the_changed_network(mobile: Explanation) -> None:
    hints = {hint.kind: hint for hint in mobile.hints}
    smaller = predict("mobilenet_v3_large", on=PHONE, shapes={"input": (1, 3, 192, 192)})
    assert hints["resolution"].text == "resolution 224x224 -> 192x192"
    assert hints["resolution"].latency_ms == pytest.approx(smaller.latency_ms)
    assert hints["resolution"].difference_ms == pytest.approx(smaller.latency_ms - mobile.prediction.latency_ms)
    assert hints["kernel_size"].text == "depthwise kernels 5x5 -> 3x3 (6 places)"
    assert len(hints["kernel_size"].operators) == 6
    assert [hint.difference_ms for hint in mobile.hints] == sorted(hint.difference_ms for hint in mobile.hints)


def test_hints_are_surely_faster_and_by_more_than_nothing(mobile: Explanation) -> None:
    for hint in mobile.hints:
        assert hint.low_ms < hint.difference_ms < hint.high_ms < 0
        assert hint.difference_percent < -LEAST_SAVED_PERCENT


def test_a_change_that_is_within_its_uncertainty_is_no_hint() -> None:
    sure, unsure = bare(1e-6, 1e-5, 0, 0), replace(bare(1e-6, 1e-5, 0, 0), interval=Interval(0.01, 100.0, 200, 0.0))
    graph = stepped(30)

    certain, uncertain = explain(graph, on=[sure, unsure])

    assert certain.hints
    assert uncertain.hints == ()
    assert uncertain.tried == certain.tried >= 3


def test_what_is_no_hint_is_kept_with_its_gain() -> None:
    sure, unsure = bare(1e-6, 1e-5, 0, 0), replace(bare(1e-6, 1e-5, 0, 0), interval=Interval(0.01, 100.0, 200, 0.0))

    certain, uncertain = explain(stepped(30), on=[sure, unsure])

    assert {hint.text for hint in certain.hints} <= {hint.text for hint in uncertain.hidden}
    assert all(hint.difference_ms < 0 for hint in uncertain.hidden)
    assert all(hint.difference_ms < 0 < hint.high_ms or hint.kind == "channels" for hint in uncertain.hidden)
    assert not {hint.text for hint in certain.hints} & {hint.text for hint in certain.hidden}


def test_the_heaviest_kernel_always_has_a_word() -> None:
    costly = replace(bare(1e-6, 0, 0, 0), rules=replace(load(PHONE).rules, pairs={}), network=CalibrationTerms())
    plain = GraphBuilder("plain")
    plain_graph = plain.finish(plain.linear(plain.flatten(plain.input((1, 3, 8, 8))), 7))

    line = explain(plain_graph, on=costly).heaviest_line()
    assert line.startswith("heaviest is gemm_0 (")
    assert line.endswith(" %): nothing known makes it faster")
    [hint] = [hint for hint in explain(stepped(16), on=costly).hints if hint.kind == "activation"]
    found = explain(stepped(16), on=costly)
    [kernel] = found.prediction.top(1)
    assert found.heaviest_line().startswith(f"heaviest is {kernel.name} (")
    assert hint.operators == ("hardswish_0",)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ({"mape": 90.1, "networks": 30}, "90.1 % off on 30 held out, of unseen kinds"),
        ({"model": POSTERIOR, TRAINING_KEYS: ["a"] * 7, "mape": 63.0, "networks": 7}, "learned from 7 networks"),
    ],
)
def test_a_rough_prediction_gives_no_hints_and_says_why(card: dict[str, object], said: str) -> None:
    phone = replace(bare(1e-6, 1e-5, 0, 0), interval=Interval(0.5, 2.0, 200, 0.0)).with_card(card)

    found = explain(stepped(30), on=phone)

    assert (found.hints, found.hidden, found.tried) == ((), (), 0)
    assert found.rough == f"the prediction is {found.prediction.grade}: {said}"
    assert found.prediction.grade.rough
    with pytest.raises(LatcastError, match="nothing to draw for pixel4/.*: the prediction is rough.*" + said):
        found.plot()


def test_an_activation_that_costs_is_named_with_its_places() -> None:
    # Fused operators cost their FLOPs; those of a hard-swish are more than a ReLU's.
    phone = replace(bare(1e-6, 0, 0, 0), rules=replace(load(PHONE).rules, pairs={}))
    graph = stepped(16)

    [hint] = [hint for hint in explain(graph, on=phone).hints if hint.kind == "activation"]

    assert hint.text == "replace hard-swish by relu (1 place)"
    assert hint.operators == ("hardswish_0",)
    assert hint.latency_ms == pytest.approx(phone.predict(with_relu(graph, "hard_swish")).latency_ms)


def test_batch_normalisations_are_a_hint_where_the_runtime_does_not_fold_them() -> None:
    phone = bare(1e-6, 1e-6, 0, 0)
    folds_nothing = replace(phone, rules=replace(phone.rules, pairs={}))

    kinds = {hint.kind: hint.text for hint in explain(stepped(16), on=folds_nothing).hints}

    assert len(find_kernels(stepped(16), folds_nothing.rules)) > len(find_kernels(stepped(16), phone.rules))
    assert kinds["batch_norm"] == "fold 1 batch normalisation into the weights before"
    assert "batch_norm" not in {hint.kind for hint in explain(stepped(16), on=phone).hints}


def channel_hints(
    monkeypatch: pytest.MonkeyPatch, network: Graph, on: PlatformPredictor, channels: int, times: float
) -> list[str]:
    """Hints about channels where kernels with so many of them take so many times as long."""
    by_coldness = PlatformPredictor.kernel_latency_by_coldness_ms

    def slowed(self: PlatformPredictor, configurations: dict[str, np.ndarray], levels: np.ndarray) -> np.ndarray:
        rows = [row.tolist() for each in configurations.values() for row in each]
        return by_coldness(self, configurations, levels) * np.where([channels in row for row in rows], times, 1.0)

    with monkeypatch.context() as patched:
        patched.setattr(PlatformPredictor, "kernel_latency_by_coldness_ms", slowed)
        return [hint.text for hint in explain(network, on=on).hints if hint.kind == "channels"]


def test_channels_are_a_hint_where_a_platform_runs_multiples_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = bare(1e-6, 1e-6, 0, 0)

    [text] = channel_hints(monkeypatch, stepped(30), steps, 30, 2.0)

    assert text.startswith("channels 30 -> ")
    assert text.endswith(" of conv_0")
    assert channel_hints(monkeypatch, stepped(32), steps, 30, 2.0) == []


@pytest.mark.parametrize(("times", "hinted"), [(0.85, True), (0.97, False), (1.0, False)])
def test_fewer_channels_are_a_hint_where_they_save_twice_their_share(
    monkeypatch: pytest.MonkeyPatch, times: float, hinted: bool
) -> None:
    """28 channels in place of 30 are 6.7 % fewer. 15 % faster beside that they save 21 %, 3 % faster 9 %; 13.3 % are needed."""
    texts = channel_hints(monkeypatch, stepped(30), bare(1e-6, 1e-9, 0, 0), 28, times)

    assert texts == (["channels 30 -> 28 of conv_0"] if hinted else [])


def test_several_platforms_are_explained_one_after_the_other() -> None:
    first, second = explain("resnet18", on=[PHONE, "s10/tflite-2.10/2large/fp32"])

    assert (first.prediction.platform, second.prediction.platform) == (PHONE, "s10/tflite-2.10/2large/fp32")
    assert repr(second).startswith("<Explanation resnet18 on s10/tflite-2.10/2large/fp32: ")


def test_the_json_form_is_what_scripts_rely_on(mobile: Explanation) -> None:
    document = json.loads(json.dumps(mobile.to_json()))

    assert {"by_type", "by_module", "by_limit", "hints", "tried", "kernels", "latency_ms"} <= set(document)
    assert set(document["hints"][0]) == {
        "kind", "text", "latency_ms", "difference_ms", "difference_percent", "low_ms", "high_ms", "operators", "operators_on_cpu",
    }  # fmt: skip
    assert {"module", "limit", "nodes"} <= set(document["kernels"][0])


def test_hints_are_drawn_with_their_intervals(mobile: Explanation, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    axes = mobile.plot(tmp_path / "hints.png").axes[0]

    assert [bar.get_width() for bar in axes.patches] == [hint.difference_ms for hint in mobile.hints]
    with pytest.raises(LatcastError, match="nothing to draw"):
        replace(mobile, hints=()).plot()
