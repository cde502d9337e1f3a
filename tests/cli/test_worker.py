"""``latcast worker`` and ``--scheduler``."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.predictors.bundle import save_bundle
from tests.cli.conftest import Latcast
from tests.predictors.made_up_platform import graphs_of, made_up_samples, make_predictor

pytest.importorskip("distributed", reason="needs the extra 'dask'")


def test_a_worker_without_work_is_refused(latcast: Latcast) -> None:
    found = latcast("worker", "tcp://127.0.0.1:9", "--no-measure", "--no-predict")
    assert found.code == 1
    assert "there is nothing to offer: --no-measure and --no-predict leave no work" in found.err


def test_predicting_by_a_scheduler_that_is_not_there_is_one_line(
    latcast: Latcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latcast.cluster.CONNECT_TIMEOUT_S", 0.5)
    bundle = save_bundle(
        make_predictor("analytical", made_up_samples(graphs_of({"resnet": 2}, seed=1))), tmp_path / "made_up.zip"
    )
    found = latcast("predict", "squeezenet1_1", "--on", bundle, "--scheduler", "tcp://127.0.0.1:9")
    assert found.code == 1
    assert "no scheduler answers at 'tcp://127.0.0.1:9'" in found.err
