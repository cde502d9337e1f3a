"""Bulk prediction over encodings."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.search import encodings as module
from latcast.search.encodings import EncodingPredictor
from latcast.spaces.nas import segment_kernels


@pytest.mark.parametrize("space", ["autoformer", "ofa_mobilenet_v3", "ofa_resnet", "nas_bench_201"])
def test_bulk_prediction_is_that_of_each_graph(space: str, platform: PlatformPredictor) -> None:
    encoded = EncodingPredictor(platform, space)
    encodings = encoded.supernet.sample_encodings(4, 9)
    found = encoded.predict_many(encodings)
    singly = platform.predict_many([encoded.supernet.build(**encoded.supernet.decode(row)) for row in encodings])
    for name in ("latency_ms", "low_ms", "high_ms"):
        assert getattr(found, name) == pytest.approx([getattr(each, name) for each in singly], rel=1e-6)
    assert found.covered_share == pytest.approx([each.coverage.share for each in singly], rel=1e-6)


def test_chunks_do_not_change_the_latencies(transformers: EncodingPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    encodings = transformers.supernet.sample_encodings(25, 4)
    at_once = transformers.predict_many(encodings).latency_ms
    monkeypatch.setattr(module, "AT_ONCE", 10)
    monkeypatch.setattr(segment_kernels, "AT_ONCE", 10)
    seen: list[int] = []
    assert transformers.predict_many(encodings, watch=seen.append).latency_ms.tolist() == at_once.tolist()
    assert seen == [10, 20, 25]
    assert transformers.sizes(encodings).macs.shape == (25,)


def test_segments_found_later_are_priced_too(platform: PlatformPredictor) -> None:
    encodings = EncodingPredictor(platform, "autoformer").supernet.sample_encodings(60, 4)
    whole = EncodingPredictor(platform, "autoformer").latencies_ms(encodings)
    growing = EncodingPredictor(platform, "autoformer")
    piecewise = np.concatenate([growing.latencies_ms(encodings[start : start + 5]) for start in range(0, 60, 5)])
    assert piecewise == pytest.approx(whole, rel=1e-12)


def test_no_encodings_have_no_latencies(transformers: EncodingPredictor) -> None:
    assert transformers.latencies_ms(transformers.supernet.sample_encodings(0, 0)).shape == (0,)
