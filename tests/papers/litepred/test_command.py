"""``python -m papers litepred``."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Latcast


def test_it_asks_for_something_to_reproduce_from(papers: Latcast) -> None:
    found = papers("litepred")

    assert found.code == 2
    assert "--store for figures 6 to 8" in found.err


def test_table_6_is_printed_from_a_benchmark(papers: Latcast, tmp_path: Path) -> None:
    arm = {"kernel_type": "conv", "sampler": "vae", "seed": 0}
    curve = [{"trained_on": "everything", "within_10": 42.0, "mape": 12.0}]
    (tmp_path / "made-up.json").write_text(json.dumps({"data": {"count": 300, "arms": [{**arm, "curve": curve}]}}))

    [found] = papers("litepred", "--samplers", tmp_path / "made-up.json", "--json").json["comparisons"]

    assert found["name"] == "table 6"
    assert found["rows"][-1]["Conv within ±10 %"] == 42.0


def test_a_store_without_such_kernels_is_refused(papers: Latcast, bundle: Path) -> None:
    from tests.cli.dataset import DATASET

    found = papers("litepred", "--store", DATASET, "--pool", bundle.parent, "--kernel-type", "conv")

    assert found.code == 1
    assert "measured kernels of type 'conv'" in found.err


def test_table_8_without_measurements_has_the_papers_figures(papers: Latcast, bundle: Path) -> None:
    [found] = papers("litepred", "--on", bundle, "--only", "table 8", "--json").json["comparisons"]

    assert found["rows"][0]["±10 %"] == 100.0
    assert found["rows"][-1]["networks"] == 0


def test_a_budget_needs_a_store_to_measure_into(papers: Latcast, bundle: Path) -> None:
    found = papers("litepred", "--on", bundle, "--budget", 1)

    assert found.code == 2
    assert "name it with --measured" in found.err
