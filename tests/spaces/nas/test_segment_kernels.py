"""Kernels of encodings: those that building each graph and searching it finds."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.errors import LatcastError
from latcast.graph.operators import graph_macs
from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import FusionRules, load_rules, rules_for
from latcast.kernels.search import find_kernels
from latcast.spaces.nas.segment_kernels import SegmentKernels
from latcast.spaces.nas.supernet import SUPERNETS, Supernet

RULES = ("onnxruntime", "openvino", "litert", "none", "ncnn", "mnn", "tflite-gpu")


@cache
def rules_named(name: str) -> FusionRules:
    return rules_for("tflite", "fp16", "gpu", gpu_family="adreno6xx") if name == "tflite-gpu" else load_rules(name)


@cache
def kept(space: str, rules: str) -> SegmentKernels:
    """Kept over examples, so that what one found is looked up by the next."""
    return SegmentKernels(SUPERNETS.get(space), rules_named(rules))


def counted(table: KernelTable) -> list[Counter[tuple[str, tuple[int, ...]]]]:
    keys = [(name, tuple(row)) for name, rows in table.configurations.items() for row in rows.tolist()]
    found: list[Counter[tuple[str, tuple[int, ...]]]] = [Counter() for _ in range(table.networks)]
    for network, kernel in zip(table.network.tolist(), table.kernel.tolist(), strict=True):
        found[network][keys[kernel]] += 1
    return found


def searched(supernet: Supernet, encodings: np.ndarray, rules: FusionRules) -> list[Counter[tuple[str, tuple[int, ...]]]]:
    graphs = [supernet.build(**supernet.decode(encoding)) for encoding in encodings]
    return [Counter(kernel.key for kernel in find_kernels(graph, rules) if not kernel.free) for graph in graphs]


@pytest.mark.parametrize("space", SUPERNETS.names())
@settings(max_examples=2)
@given(seed=st.integers(0, 10**6), rules=st.sampled_from(RULES))
def test_kernels_are_those_of_the_graphs(space: str, seed: int, rules: str) -> None:
    kernels = kept(space, rules)
    encodings = kernels.supernet.sample_encodings(2, seed)
    assert counted(kernels.table(encodings)) == searched(kernels.supernet, encodings, rules_named(rules))


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("space", SUPERNETS.names())
def test_kernels_are_those_of_the_graphs_for_many_encodings(space: str, rules: str) -> None:
    kernels = SegmentKernels(SUPERNETS.get(space), rules_named(rules))
    encodings = kernels.supernet.distinct_encodings(40, 11)
    kernels.lookup(kernels.supernet.sample_encodings(300, 12))  # most of what follows is then looked up, not built
    assert counted(kernels.table(encodings)) == searched(kernels.supernet, encodings, rules_named(rules))


def test_cells_that_are_fused_whole_into_what_is_before_them_all_count() -> None:
    # A cell without any path is one multiplication; TFLite's delegate runs all five of a stage in the kernel before them.
    kernels = kept("nas_bench_201", "tflite-gpu")
    empty = np.zeros((1, 6), dtype=np.int16)
    assert counted(kernels.table(empty)) == searched(kernels.supernet, empty, rules_named("tflite-gpu"))


@pytest.mark.parametrize("choice", [1, 4])
def test_the_layout_of_cells_without_convolutions_is_that_of_the_network(choice: int) -> None:
    # OpenVINO lays out what pools alone by the convolution that is nearest, many cells before.
    kernels = SegmentKernels(SUPERNETS.get("nas_bench_201"), rules_named("openvino"))
    cells = np.full((1, 6), choice, dtype=np.int16)
    assert counted(kernels.table(cells)) == searched(kernels.supernet, cells, rules_named("openvino"))


def test_a_network_that_was_seen_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = kept("bignas", "onnxruntime")
    encodings = kernels.supernet.sample_encodings(3, 5)
    before = kernels.lookup(encodings)

    def refuse(*_: object) -> None:
        raise AssertionError("a graph was built")

    monkeypatch.setattr(Supernet, "segmented_graph", refuse)
    assert (kernels.lookup(encodings) == before).all()


def test_sizes_are_those_of_the_graphs() -> None:
    kernels = kept("ofa_proxylessnas", "none")
    encodings = kernels.supernet.sample_encodings(3, 5)
    graphs = [kernels.supernet.build(**kernels.supernet.decode(encoding)) for encoding in encodings]
    sizes = kernels.sizes(encodings)
    assert sizes.macs.tolist() == [graph_macs(graph) for graph in graphs]
    assert sizes.parameters.tolist() == [graph.parameter_count for graph in graphs]


@pytest.mark.parametrize("wrong", [np.zeros((2, 3), dtype=np.int16), np.full((1, 24), 99), np.zeros(24, dtype=np.int16)])
def test_encodings_of_no_network_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(LatcastError, match=r"expected \(networks, \d+\) indices of choices of the space 'bignas'"):
        kept("bignas", "onnxruntime").lookup(wrong)
