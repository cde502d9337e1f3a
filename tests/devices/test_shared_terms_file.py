"""The model of all platforms as a file."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latcast.devices.shared_terms import SharedTerms
from latcast.devices.shared_terms_file import load_shared_terms, save_shared_terms
from latcast.errors import BundleError
from tests.devices.made_up_phones import fitted, networks, true_ms

NEW = "new/tflite-2.10/1large/fp32"


@pytest.fixture(scope="module")
def model() -> SharedTerms:
    return fitted().calibrated()


@pytest.fixture
def file(model: SharedTerms, tmp_path: Path) -> Path:
    return save_shared_terms(model, tmp_path / "models" / "phones.safetensors")


def changed(file: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], object]) -> Path:
    """The file with its header or its arrays changed."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    with safe_open(file, framework="numpy") as opened:
        header = json.loads(opened.metadata()["latcast"])
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    change(header, arrays)
    save_file(arrays, file, {"latcast": json.dumps(header)})
    return file


def test_a_model_read_back_predicts_the_same(model: SharedTerms, file: Path) -> None:
    latencies = true_ms(4, "fp32")
    given = {networks()[column]: float(latencies[column]) for column in (1, 4, 11, 15, 22, 25)}
    wanted = [(network.key, network) for network in networks()]

    before, after = (each.predict(NEW, given, wanted) for each in (model, load_shared_terms(file)))

    for name in ("latency_ms", "low_ms", "high_ms"):
        first, second = ([getattr(each, name) for each in found.forecasts] for found in (before, after))
        assert second == pytest.approx(first, rel=2e-3)
    assert after.nearest == before.nearest
    assert after.warnings == before.warnings
    assert load_shared_terms(file).card == {"source": "made up"}


def test_the_same_model_gives_the_same_bytes_in_place_of_the_old_ones(model: SharedTerms, file: Path) -> None:
    before = file.read_bytes()

    save_shared_terms(model, file)

    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"nothing\.safetensors: No such file"):
        load_shared_terms(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize("content", [b"", b"{}", pickle.dumps({"a": 1}), b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.safetensors").write_bytes(content)

    with pytest.raises(BundleError, match="get it again"):
        load_shared_terms(tmp_path / "odd.safetensors")


def test_a_file_cut_short_is_refused(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])

    with pytest.raises(BundleError, match="damaged"):
        load_shared_terms(file)


def test_a_newer_schema_is_refused(file: Path) -> None:
    with pytest.raises(BundleError, match="schema 2, expected 1 or older"):
        load_shared_terms(changed(file, lambda header, _: header.update(schema=2)))


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: arrays.pop("log_ms"),
        lambda header, arrays: arrays.update(log_ms=arrays["log_ms"][:, 1:]),
        lambda header, arrays: arrays.update(log_ms=np.full_like(arrays["log_ms"], np.nan)),
        lambda header, arrays: arrays.update({"part0.coefficients": -1 - arrays["part0.coefficients"]}),
        lambda header, arrays: arrays.update({"part0.conv.weights": arrays["part0.conv.weights"][:, 1:]}),
        lambda header, arrays: arrays.update({"known.conv.place": arrays["known.conv.place"] + 10_000}),
        lambda header, arrays: arrays.update({"known.conv.place": arrays["known.conv.place"] - 10_000}),
        lambda header, arrays: header["parts"][0].update(platforms=["nonsense"]),
        lambda header, arrays: header["parts"][0].update(terms=["flops"]),
        lambda header, arrays: header["reach"].update(known=-1.0),
        lambda header, arrays: header["reach"].update(novelty=[0.2, 0.1, 0.3]),
        lambda header, arrays: header["reach"].update(unseen=[1.0]),
        lambda header, arrays: header.pop("networks"),
    ],
)
def test_a_damaged_model_is_refused_in_one_line(file: Path, change: Callable[..., object]) -> None:
    with pytest.raises(BundleError, match=r"phones\.safetensors") as caught:
        load_shared_terms(changed(file, change))

    assert "\n" not in str(caught.value)


def test_a_card_that_json_cannot_hold_is_refused(model: SharedTerms, tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(BundleError, match="cannot be written"):
        save_shared_terms(replace(model, card={"networks": {1, 2}}), tmp_path / "phones.safetensors")


def test_a_place_that_cannot_be_written_to_is_named(model: SharedTerms, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(BundleError, match="cannot be written"):
        save_shared_terms(model, tmp_path / "file" / "phones.safetensors")
