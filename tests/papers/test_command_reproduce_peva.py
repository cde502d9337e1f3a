"""``python -m papers peva``."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Latcast


def test_either_published_or_live(papers: Latcast, tmp_path: Path) -> None:
    assert "either --data DIR" in papers("peva").reason
    assert "either --data DIR" in papers("peva", "--data", tmp_path, "--live").reason


def test_what_is_held_out_is_a_network_or_a_family(papers: Latcast, tmp_path: Path) -> None:
    assert papers("peva", "--data", tmp_path, "--held-out", "device").code == 2
