"""Synthetic weights, and those that repeat."""

from __future__ import annotations

import zlib

import numpy as np
import onnxruntime
import pytest

from latcast.graph.weights import synthetic_weights
from latcast.graph.writers.ncnn import to_ncnn
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import to_tflite
from latcast.spaces.catalogue import build, model


def packed_share(data: bytes) -> float:
    return len(zlib.compress(data)) / len(data)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_files_of_repeating_weights_pack_to_a_small_part_and_others_hardly(precision: str) -> None:
    # Folded normalisations scale each filter; TFLite has channels last.
    graph = build(model("mobilenet_v1_0_5"))
    files = {
        compressible: (
            to_onnx(graph, precision=precision, compressible=compressible),
            to_tflite(graph, precision=precision, compressible=compressible),
            to_ncnn(graph, precision=precision, compressible=compressible)[1],
        )
        for compressible in (False, True)
    }

    assert all(packed_share(data) > 0.8 for data in files[False])
    assert all(packed_share(data) < (0.06 if precision == "fp32" else 0.1) for data in files[True])
    assert [len(data) for data in files[True]] == pytest.approx([len(data) for data in files[False]], rel=0.001)


def test_repeating_weights_are_as_large_as_others_and_none_is_zero() -> None:
    graph = build(model("resnet18"))
    others, repeating = synthetic_weights(graph), synthetic_weights(graph, compressible=True)

    assert repeating.keys() == others.keys()
    for name, values in repeating.items():
        assert values.shape == others[name].shape
        assert np.abs(values).min() > 0
        if values.size > 50_000:
            assert values.std() == pytest.approx(others[name].std(), rel=0.05)
            assert abs(values.mean()) < 0.01 * values.std()
    assert all(np.array_equal(values, repeating[name]) for name, values in synthetic_weights(graph, compressible=True).items())
    first = next(iter(repeating))
    assert not np.array_equal(repeating[first], synthetic_weights(graph, seed=1, compressible=True)[first])


def test_results_of_repeating_weights_fit_into_half_precision() -> None:
    # Where the weights of a layer did not cancel, twenty layers would multiply what is left.
    session = onnxruntime.InferenceSession(to_onnx(build(model("regnet_x_400mf")), compressible=True))
    image = np.random.default_rng(0).uniform(-1, 1, (1, 3, 224, 224)).astype(np.float32)

    [logits] = session.run(None, {session.get_inputs()[0].name: image})

    assert 1e-3 < np.abs(logits).max() < 6e4
