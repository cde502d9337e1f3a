"""The contracts of operators, of kernel types and of the samplers that draw their configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph, Node, Shape
from latcast.graph.operators.table import OPERATORS, OperatorView, graph_flops, unknown_operators
from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_graph, kernel_type
from latcast.kernels.types.kernel_type import KERNEL_TYPES, KernelType, type_of_class
from latcast.samplers import SAMPLERS
from latcast.samplers.sampler import Sampler
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts
from latcast.spaces.parametrisations import PARAMETRISATIONS, Axis, Span

SAMPLED_TYPES = ("conv", "depthwise_conv", "concat")

every_type = pytest.mark.parametrize("type_name", SAMPLED_TYPES)

DRAWN = 20


def model_of(graph: Graph) -> onnx.ModelProto:
    """Return a graph as ONNX files hold it, its weights zeros, its results without shapes."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, graph.shape(name)) for name in graph.inputs]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in graph.outputs]
    values = {**{name: np.zeros(graph.shape(name), np.float32) for name in graph.weights}, **graph.constants}
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in values.items()]
    nodes = [
        helper.make_node(node.op_type, node.inputs, node.outputs, node.name, domain=node.domain, **node.attributes)
        for node in graph.nodes
    ]
    domains = sorted({node.domain for node in graph.nodes} - {""})
    opsets = [helper.make_opsetid("", 20), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(helper.make_graph(nodes, graph.name, inputs, outputs, stored), opset_imports=opsets)


class OperatorContract:
    """The tests of an operator."""

    op_type: ClassVar[str]
    """Name in the operator table."""

    output_shape: ClassVar[Shape]
    """Output shape of the operator that :meth:`build` adds, worked out by hand."""

    flops: ClassVar[int]
    """Its FLOPs, worked out by hand; a multiply-accumulate is two."""

    def build(self, builder: GraphBuilder) -> str:
        """Add one such operator to a graph, with the inputs it reads, and return its first result."""
        raise NotImplementedError

    @pytest.fixture
    def graph(self) -> Graph:
        builder = GraphBuilder(self.op_type)
        return builder.finish(self.build(builder))

    @pytest.fixture
    def node(self, graph: Graph) -> Node:
        [node] = [node for node in graph.nodes if node.op_type == self.op_type]
        return node

    def test_it_has_the_name_under_which_it_is_found(self) -> None:
        assert OPERATORS.get(self.op_type).op_type == self.op_type

    def test_its_shape_and_flops_are_those_worked_out_by_hand(self, graph: Graph, node: Node) -> None:
        assert graph.shape(node.outputs[0]) == self.output_shape
        assert graph_flops(graph) == self.flops
        assert unknown_operators(graph) == []

    def test_an_onnx_file_that_has_it_is_read(self, graph: Graph) -> None:
        read = load_graph(model_of(graph), strict=True)

        assert read.structure_key == graph.structure_key

    def test_without_inputs_it_is_a_malformed_model(self, node: Node) -> None:
        bare = Node(node.op_type, "bare", (), node.outputs, {}, node.domain)

        with pytest.raises(ModelError):
            OPERATORS.get(self.op_type).infer(OperatorView(bare, ()))


class KernelTypeContract:
    """The tests of a kernel type."""

    type_name: ClassVar[str]
    """Name in :data:`latcast.kernels.types.KERNEL_TYPES`."""

    configurations: ClassVar[Sequence[Mapping[str, int]]]
    """Some of its kernels, by field."""

    rules: ClassVar[str] = "onnxruntime"
    """Fusion rules, by name, under which they are one kernel each."""

    tolerance: ClassVar[float] = 0.0
    """Relative difference that is allowed between the type's FLOPs and those of its operators, where biases are left out."""

    @pytest.fixture
    def kind(self) -> KernelType:
        return kernel_type(self.type_name)

    @pytest.fixture
    def rows(self, kind: KernelType) -> np.ndarray:
        return np.array([kind.configuration(each) for each in self.configurations], dtype=np.int64)

    def test_it_is_the_type_of_its_classes(self, kind: KernelType) -> None:
        assert kind.name == self.type_name
        assert self.type_name in KERNEL_TYPES
        assert all(type_of_class(name) is kind for name in kind.classes)

    def test_a_kernel_built_alone_is_found_with_its_configuration(self, rows: np.ndarray, kind: KernelType) -> None:
        for row in rows.tolist():
            graph = kernel_graph(self.type_name, dict(zip(kind.fields, row, strict=True)))
            [kernel] = [kernel for kernel in find_kernels(graph, load_rules(self.rules)) if not kernel.free]

            assert (kernel.kernel_type, kernel.configuration) == (self.type_name, tuple(row))

    def test_its_flops_are_those_of_its_operators(self, rows: np.ndarray, kind: KernelType) -> None:
        graphs = [kernel_graph(self.type_name, dict(zip(kind.fields, row, strict=True))) for row in rows.tolist()]

        found = kind.quantities(kind.columns(rows)).flops

        assert found == pytest.approx([graph_flops(graph) for graph in graphs], rel=self.tolerance)

    def test_many_kernels_are_described_as_each_alone(self, rows: np.ndarray, kind: KernelType) -> None:
        together = kind.columns(rows)
        for index, row in enumerate(rows):
            alone = kind.columns(row)
            for name in ("flops", "input_elements", "output_elements", "weight_elements"):
                [value] = getattr(kind.quantities(alone), name)
                assert value == getattr(kind.quantities(together), name)[index] >= 0
            assert kind.throughput_class(alone)[0] == kind.throughput_class(together)[index]
            assert all(kind.features(alone)[name] == values[index] for name, values in kind.features(together).items())

    def test_its_features_are_finite(self, rows: np.ndarray, kind: KernelType) -> None:
        assert all(np.isfinite(values).all() for values in kind.features(kind.columns(rows)).values())

    def test_its_kernels_can_be_drawn(self) -> None:
        if self.type_name not in PARAMETRISATIONS:
            pytest.skip(f"{self.type_name} has no parametrisation")
        space, rng = KernelSpace(self.type_name, load_rules(self.rules)), Random(0)

        drawn = [row for row in (space.draw(rng) for _ in range(DRAWN)) if row is not None]

        assert len(set(drawn)) > 1
        assert all(space.contains(row) for row in drawn)


def space_of(type_name: str) -> KernelSpace:
    return KernelSpace(type_name, load_rules("onnxruntime"))


def listed_in(space: KernelSpace, count: int = 30) -> ConfigurationCounts:
    """Return configurations as if networks had them, the first ones more often."""
    rng = Random(5)
    drawn = [row for row in (space.draw(rng) for _ in range(4 * count)) if row is not None]
    return {row: 1 + count // (index + 1) for index, row in enumerate(drawn[:count])}


def small_space() -> KernelSpace:
    """Return softmax over one row of 8 to 11 columns: four configurations."""
    space = space_of("softmax")
    space.parametrisation = replace(
        space.parametrisation, axes=(Axis(("rows", "inner"), ((1, 0),)),), spans=(Span("columns", 8, 11),)
    )
    return space


class SamplerContract:
    """The tests of a sampler."""

    sampler_name: ClassVar[str]
    """Name in :data:`latcast.samplers.SAMPLERS`."""

    learns_from_none: ClassVar[bool] = True
    """Whether it can draw kernels of a type that no network has."""

    @pytest.fixture
    def make(self) -> Callable[..., Sampler]:
        """Make the sampler of a kernel type, with a seed."""
        maker = SAMPLERS.get(self.sampler_name)

        def make(type_name: str, seed: int = 0) -> Sampler:
            space = space_of(type_name)
            return maker(space, listed_in(space), seed)

        return make

    @every_type
    def test_all_suggestions_are_valid(self, make: Callable[..., Sampler], type_name: str) -> None:
        space = space_of(type_name)

        found = make(type_name).suggest(40)

        assert found
        assert [row for row in found if not space.contains(row)] == []

    @every_type
    def test_nothing_is_suggested_twice_or_beyond_the_count(self, make: Callable[..., Sampler], type_name: str) -> None:
        sampler = make(type_name)
        counts = (0, 1, 20, 30)

        found = [sampler.suggest(count) for count in counts]

        assert all(len(rows) <= count for rows, count in zip(found, counts, strict=True))
        assert len({row for rows in found for row in rows}) == sum(map(len, found)) >= 40

    @every_type
    def test_observed_kernels_are_never_suggested(self, make: Callable[..., Sampler], type_name: str) -> None:
        known = make(type_name).suggest(25)
        sampler = make(type_name)

        sampler.observe(known, latency_ms=[1.0] * len(known))

        assert set(known).isdisjoint(sampler.suggest(40))

    def test_kernels_that_cannot_be_measured_are_not_suggested_again(self, make: Callable[..., Sampler]) -> None:
        known = make("conv").suggest(10)
        sampler = make("conv")

        sampler.observe(known, latency_ms=[float("nan")] * len(known))

        assert set(known).isdisjoint(sampler.suggest(40))

    @every_type
    def test_a_seed_gives_the_same_twice_and_another_something_else(self, make: Callable[..., Sampler], type_name: str) -> None:
        first, again, other = (make(type_name, seed).suggest(20) for seed in (0, 0, 1))

        assert first == again
        assert set(first) != set(other)

    @every_type
    def test_errors_lead_to_valid_suggestions(self, make: Callable[..., Sampler], type_name: str) -> None:
        space, sampler = space_of(type_name), make(type_name)
        known = sampler.suggest(20)
        sampler.observe(known, latency_ms=[1.0] * len(known))

        sampler.observe(known, errors=[index / len(known) for index in range(len(known))])
        found = sampler.suggest(30)

        assert found
        assert set(known).isdisjoint(found)
        assert len(set(found)) == len(found)
        assert [row for row in found if not space.contains(row)] == []

    @every_type
    def test_its_state_is_its_seed_and_its_observations(self, make: Callable[..., Sampler], type_name: str) -> None:
        known = make(type_name).suggest(30)
        errors = [0.5 if index % 3 else 0.01 for index in range(len(known))]
        suggestions = []
        for _ in range(2):
            sampler = make(type_name)
            sampler.observe(known, latency_ms=[1.0] * len(known))
            sampler.observe(known, errors=errors)
            suggestions.append(sampler.suggest(20))

        assert suggestions[0] == suggestions[1]

    def test_unknown_errors_are_skipped(self, make: Callable[..., Sampler]) -> None:
        sampler = make("conv")
        known = sampler.suggest(5)

        sampler.observe(known, errors=[float("nan")] * len(known))

        assert sampler.suggest(10)

    def test_an_exhausted_space_ends_the_suggestions(self) -> None:
        space = small_space()
        sampler = SAMPLERS.get(self.sampler_name)(space, {(1, 8, 0, 0, 0, 0): 2, (1, 11, 0, 0, 0, 0): 1}, 0)

        found: list[Configuration] = []
        for _ in range(20):
            more = sampler.suggest(10)
            if not more:
                break
            found += more

        assert sampler.suggest(10) == []
        assert len(set(found)) == len(found) >= 4

    def test_a_type_that_no_network_has_can_be_drawn(self) -> None:
        if not self.learns_from_none:
            pytest.skip(f"{self.sampler_name} learns from networks alone")
        space = space_of("conv_transpose")

        found = SAMPLERS.get(self.sampler_name)(space, {}, 0).suggest(10)

        assert len(found) == 10
        assert all(space.contains(row) for row in found)
