"""Writes what a release's bundles are: ``python -m tests.predictors.golden_bundles.make VERSION``, before it is released.

Every later version has to read them and to predict the same, so nothing here is written twice for one version.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from latcast.platforms import load
from latcast.predictors.bundle import save_bundle
from latcast.training.from_store import train
from tests.cli.dataset import DATASET

FOLDER = Path(__file__).parent

NETWORKS = ("resnet18", "mobilenet_v2", "squeezenet1_1", "vit_base_16")

SHIPPED = "a03s/tflite-2.10/1small/int8"
"""Its kernel predictors are trees."""


def make(version: str) -> Path:
    """Writes the bundles of a version, and what they predict; returns their folder."""
    folder = FOLDER / version
    folder.mkdir()
    predictors = {"networks": train(DATASET, learn_from="networks"), "kernels": load(SHIPPED)}
    expected = {}
    for name, predictor in predictors.items():
        save_bundle(predictor, folder / f"{name}.zip", compressed=True)
        found = predictor.predict_many(NETWORKS)
        expected[name] = {each.model: [each.latency_ms, each.low_ms, each.high_ms] for each in found}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    return folder


if __name__ == "__main__":
    print(make(sys.argv[1]))
