"""Tables of the named networks' kernels: written and read, refused where they hold something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.kernels.delegates import delegate_of
from latcast.kernels.partitioning import partition
from latcast.kernels.rules import FusionRules, load_rules, shipped_rules
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import NEED_A_FAMILY
from latcast.kernels.types import KERNEL_TYPES
from latcast.predictors.starts import features_of, features_of_named
from latcast.records import Platform
from latcast.spaces import named_kernels as module
from latcast.spaces.catalogue import build, model
from latcast.spaces.kernel_table_files import is_current
from latcast.spaces.named_kernels import (
    NamedKernels,
    make_named_kernels,
    named_crossings,
    named_kernels,
    rated_networks,
    table_bytes,
    table_name,
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Three small networks are all there are; the user's cache is a folder of the test's."""
    known = {each.name: each for each in rated_networks()}
    networks = tuple(known[name] for name in ("timm/lcnet_050", "timm/tinynet_e", "torchvision/resnet18"))
    monkeypatch.setattr(module, "rated_networks", lambda: networks)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LATCAST_HOME", raising=False)
    return tmp_path


def same(a: NamedKernels, b: NamedKernels) -> bool:
    """Whether each network has the same kernels."""
    found = []
    for each in (a, b):
        rows = [(name, tuple(row)) for name, listed in each.table.configurations.items() for row in listed.tolist()]
        pairs = zip(each.table.network.tolist(), each.table.kernel.tolist(), strict=True)
        found.append((sorted((network, rows[kernel]) for network, kernel in pairs), each.reserved_bytes.tolist()))
    return bool(found[0] == found[1])


def test_the_package_has_the_kernels_of_all_rated_networks_under_every_rule() -> None:
    networks = rated_networks()
    missing = []
    for name in sorted(set(shipped_rules()) - {"none"}):
        rules = load_rules(name)
        if rules.selection not in NEED_A_FAMILY and not is_current(module.SHIPPED_TABLES / table_name(networks, rules)):
            missing.append(name)

    assert not missing, "python -m benchmarks choose --ship"


def test_a_table_is_made_once_and_kept(few: Path) -> None:
    told: list[int] = []
    rules = replace(load_rules("tflite"), multi_inbound=1)

    made = named_kernels(rules, lambda done, total: told.append(done))
    again = named_kernels(rules, lambda done, total: told.append(done))

    assert told == [1, 2, 3]
    assert same(made, again)


def test_an_outdated_table_of_the_cache_is_made_again(few: Path) -> None:
    rules = replace(load_rules("tflite"), multi_inbound=1)
    made = named_kernels(rules)
    [path] = few.rglob("named-*.npz")
    other = made.table.configurations["conv"].copy()
    other[:, 0] += 1
    changed = replace(made, table=replace(made.table, configurations={**made.table.configurations, "conv": other}))
    path.write_bytes(table_bytes(changed, rules))

    assert same(named_kernels(rules), made)


def test_a_table_is_current_while_kernel_types_have_its_fields(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = replace(load_rules("tflite"), multi_inbound=1)
    named_kernels(rules)
    [path] = few.rglob("named-*.npz")
    conv = KERNEL_TYPES.get("conv")

    assert is_current(path)
    assert not is_current(path.with_name("missing.npz"))
    monkeypatch.setitem(KERNEL_TYPES._loaded, "conv", replace(conv, own_fields=(*conv.own_fields, "swizzle")))
    assert not is_current(path)


def test_gpus_that_select_other_kernels_share_a_table(few: Path) -> None:
    plain = load_rules("tflite-gpu")
    mali, adreno = (replace(plain, selection=f"tflite_gpu:{family}") for family in ("mali", "adreno6xx"))

    assert table_name(rated_networks(), mali) == table_name(rated_networks(), adreno)
    assert "conv.winograd" in named_kernels(mali).table.configurations
    assert "conv.winograd" not in named_kernels(adreno).table.configurations


def test_the_table_of_a_gpu_has_the_kernels_of_single_networks(few: Path) -> None:
    from latcast.kernels.kernel import KernelTable
    from latcast.networks import read_model

    rules = replace(load_rules("tflite-gpu"), selection="tflite_gpu:mali")

    found = named_kernels(rules)

    kernels = [find_kernels(read_model(each.name), rules) for each in found.networks]
    assert same(found, replace(found, table=KernelTable.of(kernels)))


def test_memory_follows_the_precision(few: Path) -> None:
    networks = module.rated_networks()
    [found] = make_named_kernels(networks, [FusionRules("litert")])
    weights = np.array([1e6 * each.million_parameters for each in networks])

    assert found.memory_bytes("fp32") == pytest.approx(found.reserved_bytes[:, 0] + 4 * weights)
    assert found.memory_bytes("fp16") == pytest.approx(found.reserved_bytes[:, 0] / 2 + 2 * weights)
    assert found.memory_bytes("int8") == pytest.approx(found.reserved_bytes[:, 1] + weights)


@pytest.mark.parametrize(("rules", "precision"), [("onnxruntime", "fp32"), ("litert", "int8")])
def test_what_decides_a_start_is_read_from_the_table_as_from_the_graphs(few: Path, rules: str, precision: str) -> None:
    chosen = replace(load_rules(rules), multi_inbound=1)
    named_kernels(chosen)
    graphs = [build(model(each.name)) for each in module.rated_networks()]

    found = features_of_named(named_kernels(chosen), precision)

    for row, graph in zip(found, graphs, strict=True):
        assert row == pytest.approx(features_of(graph, find_kernels(graph, chosen), chosen, precision))


def test_crossings_are_counted_once_and_kept(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On RZ/V2M the two networks with squeeze-and-excitation cross to the CPU, the third does not."""
    platform = Platform.parse("rz-v2m-evk/drp-ai-tvm-2.4.0/npu/fp16")
    delegate = delegate_of(platform)
    assert delegate is not None
    told: list[int] = []

    made = named_crossings(delegate, lambda done, total: told.append(done))
    again = named_crossings(delegate, lambda done, total: told.append(done))

    parts = [partition(build(model(each.name)), delegate) for each in module.rated_networks()]
    assert told == [1, 2, 3]
    assert made.tolist() == again.tolist() == [[len(each.crossings), each.crossing_bytes] for each in parts]
    assert (made[:, 0] > 0).tolist() == [True, True, False]
