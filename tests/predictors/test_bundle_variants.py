"""Bundles whose rules select kernels: a predictor a variant, in a file of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import BundleError
from latcast.kernels import KernelTable, find_kernels, kernel_type
from latcast.kernels.rules import rules_for
from latcast.predictors.analytical import term_values
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from tests.predictors.made_up_platform import TRUTH, graphs_of, make_predictor

RULES = rules_for("tflite", "fp16", "gpu", "s10")


@pytest.fixture(scope="module")
def predictor() -> PlatformPredictor:
    table = KernelTable.of([find_kernels(graph, RULES) for graph in graphs_of({"resnet": 4, "mobilenet_v3": 2}, seed=3)])
    samples = {name: (rows, term_values(kernel_type(name), rows) @ TRUTH) for name, rows in table.configurations.items()}
    made = make_predictor("analytical_gbdt", samples)
    return replace(made, platform=Platform.parse("s10/tflite-2.10/gpu/fp16"), rules=RULES)


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_variants_come_back_with_their_predictors(predictor: PlatformPredictor, tmp_path: Path, name: str) -> None:
    graphs = graphs_of({"resnet": 2, "mobilenet_v3": 1}, seed=4)

    loaded = load_bundle(save_bundle(predictor, tmp_path / name))

    assert {"conv", "conv.winograd", "linear"} <= set(loaded.kernels)
    assert loaded.rules.selection == "tflite_gpu:mali"
    np.testing.assert_allclose(loaded.latencies_ms(graphs), predictor.latencies_ms(graphs), rtol=1e-9)


def test_a_variant_of_no_type_is_refused(predictor: PlatformPredictor, tmp_path: Path) -> None:
    path = save_bundle(predictor, tmp_path / "bundle")
    document = json.loads((path / "platform.json").read_text())
    entry = document["kernels"].pop("conv.winograd")
    document["kernels"]["warp.winograd"] = {**entry, "file": "kernels/warp.winograd.safetensors"}
    (path / "platform.json").write_text(json.dumps(document))
    (path / "kernels" / "conv.winograd.safetensors").rename(path / "kernels" / "warp.winograd.safetensors")

    with pytest.raises(BundleError, match=r"found the kernel type 'warp\.winograd', expected one of .*, or a variant of one"):
        load_bundle(path)


def test_rules_of_a_selection_that_is_not_known_here_are_refused(predictor: PlatformPredictor, tmp_path: Path) -> None:
    path = save_bundle(predictor, tmp_path / "bundle")
    rules = json.loads((path / "fusion_rules.json").read_text())
    (path / "fusion_rules.json").write_text(json.dumps({**rules, "selection": "tflite_gpu:warp"}))

    with pytest.raises(BundleError, match=r"fusion_rules\.json: selection 'tflite_gpu:warp': no GPU family is called 'warp'"):
        load_bundle(path)
