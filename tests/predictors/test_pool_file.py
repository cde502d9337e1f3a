from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import BundleError
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.pool_file import PoolFile
from latcast.records import Platform
from latcast.spaces import build
from latcast.spaces.catalogue import model
from shipping.files import save_pool
from tests.devices.made_up_devices import networks
from tests.shipping.known_pool import WANTED, members, pool


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pool(members(), tmp_path_factory.mktemp("pool") / "pool.safetensors")


def test_platforms_are_listed_by_id(file: Path) -> None:
    found = PoolFile(file)

    assert found.platforms == tuple(sorted(WANTED))
    assert WANTED[0] in found
    assert "other/tflite-2.14/cpu1/fp32" not in found
    assert len(found) == len(WANTED)


def test_a_platform_predicts_as_it_did_and_no_interval_is_narrower(file: Path) -> None:
    again, graphs = PoolFile(file), [build(model(name)) for name in ("resnet50", "vgg11", "efficientnet_b1", "densenet169")]

    wider = []
    for each in members():
        before = each.predictor.predict_many(graphs)
        after = again.predictor(each.predictor.platform.id).predict_many(graphs)
        for mine, theirs in zip(after, before, strict=True):
            assert mine.latency_ms == pytest.approx(theirs.latency_ms, rel=2e-3)
            wider.append(np.log(mine.high_ms / mine.low_ms) / np.log(theirs.high_ms / theirs.low_ms))
    assert min(wider) > 0.999
    # Of variances of 1, half precision leaves a thousandth open: beside 2 % of noise that shows.
    assert np.median(wider) < 1.25


def test_a_network_that_the_platform_ran_takes_what_was_measured(file: Path) -> None:
    known = pool().platforms[0]
    graphs = [build(networks()[row]) for row in known.networks[:4]]

    found = PoolFile(file).predictor(known.name).predict_many(graphs)

    assert [each.latency_ms for each in found] == pytest.approx(np.exp(known.log_ms[:4]), rel=1e-5)
    assert {each.grade.why for each in found} == {"measured there"}


def test_a_platform_has_the_rules_that_its_runtime_asks_for(tmp_path: Path) -> None:
    first = members()[0]
    compiled = Platform.parse("other/pytorch-2.4.0/cpu+dynamo/fp32")
    other = replace(first, predictor=replace(first.predictor, platform=compiled))

    found = PoolFile(save_pool([first, other], tmp_path / "pool.safetensors"))

    assert not found.predictor(first.predictor.platform.id).rules.standardises
    assert found.predictor(compiled.id).rules.standardises


def test_a_card_is_the_one_that_was_written(file: Path) -> None:
    again = PoolFile(file)

    for each in members():
        card = again.card(each.predictor.platform.id)
        assert card == {**each.predictor.card}
        assert len(card[TRAINING_KEYS]) == len(networks())
        assert card[TRAINING_LINEAGES]


def test_the_same_platforms_give_the_same_bytes_in_any_order(file: Path, tmp_path: Path) -> None:
    again = save_pool(members()[::-1], tmp_path / "again.safetensors")

    assert again.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("size", [0, 7, 400, 20_000])
def test_a_truncated_pool_is_refused(file: Path, tmp_path: Path, size: int) -> None:
    cut = tmp_path / "pool.safetensors"
    cut.write_bytes(file.read_bytes()[:size])

    with pytest.raises(BundleError, match="get the file again"):
        PoolFile(cut)


def test_a_nan_is_refused_when_the_platform_is_read(file: Path, tmp_path: Path) -> None:
    data = bytearray(file.read_bytes())
    length = int.from_bytes(data[:8], "little")
    start, end = json.loads(data[8 : 8 + length])["member.mean"]["data_offsets"]
    data[8 + length + start : 8 + length + end] = np.full((end - start) // 4, np.nan, dtype="<f4").tobytes()
    broken = tmp_path / "pool.safetensors"
    broken.write_bytes(bytes(data))

    with pytest.raises(BundleError, match="not finite"):
        PoolFile(broken).predictor(WANTED[0])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cannot read the pool"):
        PoolFile(tmp_path / "none.safetensors")
