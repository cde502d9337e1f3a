"""Bundles that must not be used, on the command line."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latcast.predictors.bundle import BUNDLE_SCHEMA, save_bundle
from latcast.predictors.platform_predictor import PlatformPredictor
from tests.cli.conftest import Latcast


@pytest.fixture
def folder(home: Path, trained: PlatformPredictor) -> Path:
    return save_bundle(trained, home / "bundle")


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def wrong_golden_value(folder: Path) -> None:
    edit(folder / "golden.json", lambda golden: golden["networks"][0].update(latency_ms=1.0))


def newer_schema(folder: Path) -> None:
    edit(folder / "platform.json", lambda document: document.update(schema=99))


def a_pickle(folder: Path) -> None:
    (folder / "kernels" / "conv.safetensors").write_bytes(pickle.dumps({"model": [1.0] * 100}))


def a_cut_file(folder: Path) -> None:
    file = folder / "kernels" / "conv.safetensors"
    file.write_bytes(file.read_bytes()[:100])


def no_card(folder: Path) -> None:
    (folder / "card.json").unlink()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (wrong_golden_value, "golden.json: found latency_ms "),
        (newer_schema, f"platform.json: found schema 99, expected {BUNDLE_SCHEMA} or older; update latcast to read it"),
        (a_pickle, "kernels/conv.safetensors: found a pickle"),
        (a_cut_file, "kernels/conv.safetensors: found no safetensors"),
        (no_card, "card.json: found no such file"),
    ],
)
@pytest.mark.parametrize("command", [("predict", "resnet18", "--on"), ("evaluate",)], ids=lambda words: words[0])
def test_a_bad_bundle_is_one_line(
    latcast: Latcast, folder: Path, command: tuple[str, ...], damage: Callable[[Path], None], expected: str
) -> None:
    damage(folder)

    rest = ("nosuch.sqlite",) if command == ("evaluate",) else ()
    reason = latcast(*command, folder, *rest).reason

    assert reason.startswith(f"{folder}: ")
    assert expected in reason
