"""The benchmark of variants: drawn, described, divided into strata."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from latcast.datasets.store import Store
from latcast.datasets.variants import (
    FAMILIES,
    VARIANT_PLAN,
    FactsReader,
    GraphFacts,
    Variant,
    draw_variants,
    measure_variants,
    no_larger_than,
    stratified,
)
from latcast.errors import DatasetError
from latcast.graph.builder import GraphBuilder
from latcast.measure.campaign import Progress
from latcast.records import Reference
from tests.measure.behaving import reference, settings

QUICK = ("alexnet", "squeezenet", "nas_bench_201")


def variant(family: str, index: int, macs: int, parameters: int = 1000) -> Variant:
    facts = GraphFacts(macs, 2 * macs, parameters, 10, "0" * 12, {"Conv": 1}, {})
    return Variant(family, index, Reference(family, {"index": index}), facts)


def test_facts_are_those_of_the_graph() -> None:
    b = GraphBuilder("small")
    x = b.relu(b.batch_norm(b.conv(b.input((1, 3, 8, 8)), 4, 3)))
    facts = FactsReader()(b.finish(b.linear(b.flatten(x), 10)))
    # 8·8·4 outputs of 27 products; 256·10 products of the linear layer.
    assert facts.macs == 6912 + 2560
    # Weights, four numbers a channel of the normalisation, weights and bias of the linear layer.
    assert facts.parameters == 108 + 16 + 2570
    # Input, three maps of 256, the same flat, and 10 outputs.
    assert facts.activations == 192 + 4 * 256 + 10
    assert facts.operators == {"BatchNormalization": 1, "Conv": 1, "Flatten": 1, "Gemm": 1, "Relu": 1}
    assert facts.kernels["onnxruntime"] == {"conv": 1, "linear": 1}


def test_structure_is_blind_to_sizes_and_not_to_connections() -> None:
    def structure(width: int, *, twice: bool) -> str:
        b = GraphBuilder("small")
        x = b.conv(b.input((1, 3, 8, 8)), width, 3)
        y = b.relu(x)
        return FactsReader()(b.finish(b.add(y, y if twice else x))).structure

    assert structure(4, twice=True) == structure(9, twice=True)
    assert structure(4, twice=True) != structure(4, twice=False)


def test_every_part_gives_as_many_networks_and_a_smaller_count_is_the_head() -> None:
    seen: list[tuple[str, int]] = []
    found = draw_variants(3, 5, families=QUICK, progress=lambda family, done: seen.append((family, done)))
    assert [(item.family, item.index) for item in found] == [(family, index) for family in QUICK for index in range(3)]
    assert all(item.reference.space == item.family for item in found)
    assert len({item.reference.key for item in found}) == 9
    assert [item for item in found if item.index < 2] == draw_variants(2, 5, families=QUICK)
    assert seen[0] == ("alexnet", 1)
    assert seen[-1] == ("nas_bench_201", 9)
    # Widths and kernel sizes vary in the families, connections in the cells.
    assert len({item.facts.structure for item in found if item.family == "alexnet"}) == 1
    assert len({item.facts.structure for item in found if item.family == "nas_bench_201"}) > 1


def test_a_part_that_the_benchmark_lacks_is_refused() -> None:
    with pytest.raises(DatasetError, match="no family 'vit'"):
        draw_variants(1, families=("vit",))


def test_all_thirteen_parts_can_be_drawn() -> None:
    found = draw_variants(2)
    assert Counter(item.family for item in found) == dict.fromkeys(FAMILIES, 2)


def test_a_stratified_part_takes_one_of_each_stratum_of_each_family() -> None:
    everything = [variant(family, index, macs=(index * 7) % 100) for family in ("a", "b") for index in range(100)]
    part = stratified(everything, 20, seed=1)
    for family in ("a", "b"):
        # A hundred different sizes in ten strata of ten.
        assert sorted(item.facts.macs // 10 for item in part if item.family == family) == list(range(10))
    assert part == stratified(everything, 20, seed=1)
    assert part != stratified(everything, 20, seed=2)


def test_any_beginning_of_a_part_holds_all_families() -> None:
    everything = [variant(family, index, macs=index) for family in ("a", "b", "c") for index in range(30)]
    part = stratified(everything, 10)
    assert [item.family for item in part] == ["a", "b", "c", "a", "b", "c", "a", "b", "c", "a"]


def test_more_than_there_are_cannot_be_chosen() -> None:
    with pytest.raises(DatasetError, match=r"6 variants of a .* there are 5"):
        stratified([variant("a", index, index) for index in range(5)], 6)


def test_networks_beyond_limits_are_left_out() -> None:
    just = variant("a", 0, macs=16_000_000_000, parameters=160_000_000)
    above = [variant("a", 1, macs=16_000_000_001), variant("a", 2, macs=1, parameters=160_000_001)]
    assert no_larger_than([just, *above]) == [just]
    assert no_larger_than([just, *above], macs=2) == []
    assert no_larger_than(above, parameters=1e9, macs=1) == above[1:]


FACTS = GraphFacts(1, 2, 3, 4, "0" * 12, {}, {})
VARIANTS = [Variant("behaving", number, reference("runs", number), FACTS) for number in range(2)]


def test_variants_are_measured_once_for_each_process_and_not_again(tmp_path: Path) -> None:
    steps: list[Progress] = []
    with Store(tmp_path / "store.sqlite") as store:
        first = measure_variants(VARIANTS, settings(), store, processes=2, profile=False, progress=steps.append)
        again = measure_variants(VARIANTS, settings(), store, processes=2, profile=False)
        labels = store.labels(platform=first.platform.id)
    assert (first.added, first.missing, again.added) == (4, 0, 0)
    assert [label.processes for label in labels] == [2, 2]
    assert [label.rounds for label in labels] == [2 * VARIANT_PLAN.rounds] * 2
    assert (steps[-1].done, steps[-1].total) == (4, 4)


def test_kernels_are_timed_unless_told_otherwise(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        report = measure_variants(VARIANTS[:1], settings(), store)
        [measured] = store.measurements(platform=report.platform.id)
    assert measured.executed
