"""Lines of TFLite's profiles and the nodes that they compute; LiteRT itself says what runs where it is installed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from latcast.datasets.importers.benchmark_tools import ToolOutputs, read_outputs
from latcast.datasets.importers.benchmark_tools.manifest import KitManifest, KitNetwork
from latcast.graph.builder import GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph
from latcast.graph.writers.tflite import to_tflite, write_tflite
from latcast.kernels.executed_names import executed_names
from latcast.kernels.rules import rules_for
from latcast.kernels.search import find_kernels
from latcast.records import ExecutedKernel, Platform, Reference
from latcast.runtimes.litert_native import ProfiledEvent
from latcast.spaces.catalogue import build, model
from latcast.spaces.pytorchcv import reference_of
from tests.datasets.importers.benchmark_tools.printed_profile import document, printed, profiled

CPU, GPU = "p/tflite-2.17/cpu1/fp32", "p/tflite-2.17/gpu/fp16"

VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Transpose"}


def read(folder: Path, text: str, reference: Reference, platform: str = CPU) -> ToolOutputs:
    (folder / "network.txt").write_text(text)
    kit = KitManifest((KitNetwork("network", reference),))
    return read_outputs([folder / "network.txt"], kit=kit, platform=Platform.parse(platform))


def executed(folder: Path, text: str, reference: Reference, platform: str = CPU) -> tuple[ExecutedKernel, ...]:
    found = read(folder, text, reference, platform)
    assert found.notes == ()
    return found.measurements[0].executed


def attributed(kernels: tuple[ExecutedKernel, ...]) -> float:
    """Share of the time that nodes take."""
    return sum(each.latency_ms for each in kernels if each.nodes) / sum(each.latency_ms for each in kernels)


def lines(*rows: tuple[str, str, float]) -> str:
    """A profile of lines (type, name, milliseconds of one call), one call each unless the name ends in ``xN``."""
    printed_rows = []
    for kind, name, latency_ms in rows:
        plain, _, calls = name.partition(" x")
        printed_rows.append(f"{kind:>30} {latency_ms:.3f} {latency_ms:.3f} 1.0% 1.0% 0.000 {calls or 1}\t{plain}")
    return document(printed_rows, 1e3 * sum(latency_ms for _, _, latency_ms in rows))


def own(graph: Graph) -> str:
    """What the tool prints with ``--use_xnnpack=false``: every operator of the file takes 1 ms."""
    model = write_tflite(graph).model
    events = [ProfiledEvent(operator.builtin, False, index, 1000) for index, operator in enumerate(model.operators)]
    return printed(model, [events])


def small(name: str = "small") -> Graph:
    """Two branches: convolution and activation, power; their sum."""
    b = GraphBuilder(name)
    x = b.conv(b.input((1, 3, 16, 16)), 6, 3)
    powered = b.op("Pow", [b.op("Exp", [x])[0], b.constant(1.5, dtype="float32")])[0]
    return b.finish(b.relu(b.conv(b.add(powered, b.conv(x, 6, 1)), 4, 1)))


@pytest.fixture
def small_file(tmp_path: Path) -> Reference:
    from latcast.graph.writers.onnx import to_onnx
    from latcast.networks import resolve_model

    (tmp_path / "small.onnx").write_bytes(to_onnx(small()))
    return resolve_model(tmp_path / "small.onnx")


@pytest.mark.parametrize("name", ["regnetx002", "squeezenet1_1"])
def test_tflite_s_own_operators_are_known_by_their_outputs(tmp_path: Path, name: str) -> None:
    reference = model(name, as_measured=True)
    graph = build(reference)

    found = executed(tmp_path, own(graph), reference)

    listed = {node for kernel in found for node in kernel.nodes}
    assert attributed(found) >= 0.95
    assert not [node.name for node in graph.nodes if node.name not in listed and node.op_type not in VIEWS]


def test_names_of_another_converter_are_known_by_index_and_then_by_turn(tmp_path: Path) -> None:
    reference = reference_of("mobilenetv2b_wd4")
    text = own(build(reference))
    expected = [kernel.nodes for kernel in executed(tmp_path, text, reference)]

    other_names = re.sub(r"\[[^\s\]]+\]:(\d+)$", r"[StatefulPartitionedCall/x\1]:\1", text, flags=re.MULTILINE)
    other_indices = re.sub(r"\[[^\s\]]+\]:(\d+)$", r"[StatefulPartitionedCall/x\1]:9\g<1>9", text, flags=re.MULTILINE)

    assert "StatefulPartitionedCall" in other_names
    assert [kernel.nodes for kernel in executed(tmp_path, other_names, reference)] == expected
    assert [kernel.nodes for kernel in executed(tmp_path, other_indices, reference)] == expected


def test_a_file_s_own_operators_are_those_of_the_file(tmp_path: Path) -> None:
    from latcast.networks import resolve_model

    graph = build(reference_of("mobilenetv2b_wd4"))
    (tmp_path / "own.tflite").write_bytes(to_tflite(graph))

    found = executed(tmp_path, own(graph), resolve_model(tmp_path / "own.tflite"))

    listed = Counter(node for kernel in found for node in kernel.nodes)
    imported = load_graph(tmp_path / "own.tflite")
    assert attributed(found) >= 0.95
    assert not [node.name for node in imported.nodes if listed[node.name] != 1 and node.op_type not in VIEWS]


def test_xnnpack_s_kernels_lie_beside_the_operators_around_those_that_tflite_ran_itself(
    tmp_path: Path, small_file: Reference
) -> None:
    names = [node.name for node in build(small_file).nodes]
    [conv, exp, power, branch, add, last, relu] = [
        next(name for name in names if name.startswith(prefix))
        for prefix in ("conv_0", "exp", "pow", "conv_1", "add", "conv_2", "relu")
    ]
    text = lines(
        ("Convolution (NHWC, F32) IGEMM", "Delegate/Convolution (NHWC, F32) IGEMM:0", 4.0),
        ("Exp (NC)", "Delegate/Exp (NC):1", 1.0),
        ("Fully Connected (NC, F32) GEMM", "Delegate/Fully Connected (NC, F32) GEMM:2", 2.0),
        ("POW", "[pow_0]:2", 3.0),
        ("Add (ND)", "Delegate/Add (ND):0", 0.5),
        ("Fully Connected (NC, F32) GEMM", "Delegate/Fully Connected (NC, F32) GEMM:1", 1.5),
    )

    found = executed(tmp_path, text, small_file)

    assert [(kernel.nodes, kernel.latency_ms) for kernel in found] == [
        ((conv,), 4.0), ((exp,), 1.0), ((branch,), 2.0), ((power,), 3.0), ((add,), 0.5), ((last, relu), 1.5),
    ]  # fmt: skip


def test_a_line_of_calls_in_two_parts_is_shared_by_them(tmp_path: Path) -> None:
    from latcast.graph.writers.onnx import to_onnx
    from latcast.networks import resolve_model

    b = GraphBuilder("twice")
    x = b.op("Pow", [b.op("Exp", [b.input((1, 6, 16, 16))])[0], b.constant(1.5, dtype="float32")])[0]
    (tmp_path / "twice.onnx").write_bytes(to_onnx(b.finish(b.op("Exp", [x])[0])))
    text = lines(("Exp (NC)", "Delegate/Exp (NC):0 x2", 0.7), ("POW", "[p]:1", 3.0))

    found = executed(tmp_path, text, resolve_model(tmp_path / "twice.onnx"))

    assert [kernel.latency_ms for kernel in found] == pytest.approx([0.7, 3.0, 0.7])
    assert [len(kernel.nodes) for kernel in found] == [1, 1, 1]
    assert len({kernel.nodes for kernel in found}) == 3


def test_a_delegate_without_kernels_computes_its_whole_part(tmp_path: Path, small_file: Reference) -> None:
    graph = build(small_file)

    [found] = executed(tmp_path, lines(("TfLiteGpuDelegateV2", "[relu_0]:7", 9.0)), small_file)

    assert found.latency_ms == 9.0
    assert set(found.nodes) == {node.name for node in graph.nodes}


def test_a_gpu_s_kernels_are_matched_by_name(tmp_path: Path) -> None:
    reference = reference_of("mobilenetv3_small_w7d20")
    graph = build(reference)
    platform = Platform.parse(GPU)
    # The phone is not known, nor is the family of its GPU.
    rules = rules_for(platform.runtime, platform.precision, platform.unit, gpu_family="mali")
    kernels = [kernel for kernel in find_kernels(graph, rules) if not kernel.free]
    names = executed_names(graph, kernels, rules)
    numbered = ["_linked_:_".join(f"{part}_{index}" for part in name.split("_linked_:_")) for index, name in enumerate(names)]
    text = lines(*((name, f"Delegate/{name}:{index}", 1.0) for index, name in enumerate(numbered)))

    found = executed(tmp_path, text, reference, GPU)

    assert [kernel.nodes for kernel in found] == [kernel.nodes for kernel in kernels]
    # One that we would not expect, and one that we would and that is not there.
    odd = lines(
        *((name, f"Delegate/{name}:{index}", 1.0) for index, name in enumerate([*numbered[:5], "softmax_9", *numbered[6:]]))
    )
    kept = executed(tmp_path, odd, reference, GPU)
    assert [kernel.nodes for kernel in kept[:5]] == [kernel.nodes for kernel in kernels[:5]]
    assert kept[5].nodes == ()
    assert [kernel.nodes for kernel in kept[6:]] == [kernel.nodes for kernel in kernels[6:]]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([("SOFTMAX", "[a]:0", 1.0)], "TFLite ran 'SOFTMAX' (a), for which the network has no operator left"),
        ([("CONV_2D", "[a]:0", 1.0)], "0 lines are of a delegate, and the network has 1 parts"),
        ([("Softmax (NC)", "Delegate/Softmax (NC):0", 1.0)], "LiteRT reports the kernel 'Softmax (NC)' where 'CONV_2D'"),
        ([("Exp (NC)", "Delegate/Exp (NC):999999999999", 1.0)], "XNNPACK's kernels are not numbered as those of the parts"),
        ([("Exp (NC)", "Delegate/Exp (NC):-1", 1.0)], "LiteRT reports the kernel 'none' where 'CONV_2D' was expected"),
    ],
)
def test_lines_that_do_not_fit_are_kept_without_nodes_and_noted(
    tmp_path: Path, small_file: Reference, rows: list[tuple[str, str, float]], reason: str
) -> None:
    found = read(tmp_path, lines(*rows), small_file)

    [note] = found.notes
    assert note.startswith(f"the operators profiled in 'small' are not matched with its nodes: {reason}")
    assert [(kernel.kind, kernel.nodes) for kernel in found.measurements[0].executed] == [(rows[0][0], ())]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_nearly_all_of_the_time_of_real_profiles_is_that_of_nodes(tmp_path: Path, precision: str) -> None:
    pytest.importorskip("ai_edge_litert")
    for name in ("mobilenetv2b_wd4", "mobilenetv3_small_w7d20", "regnety002", "shufflenet_v2_x0_5", "deit_tiny_16"):
        reference = model(name, as_measured=True)
        graph = build(reference)

        found = executed(tmp_path, profiled(graph, precision), reference, CPU.replace("fp32", precision))

        assert attributed(found) >= 0.95, name
        listed = {node for kernel in found for node in kernel.nodes}
        assert not [node.name for node in graph.nodes if node.name not in listed and node.op_type not in VIEWS], name


def test_a_number_that_is_missing_between_others_does_not_fit(tmp_path: Path, small_file: Reference) -> None:
    text = lines(
        ("Convolution (NHWC, F32) IGEMM", "Delegate/Convolution (NHWC, F32) IGEMM:0", 4.0),
        ("Exp (NC)", "Delegate/Exp (NC):0", 1.0),
        ("Exp (NC)", "Delegate/Exp (NC):2", 1.0),
    )

    [note] = read(tmp_path, text, small_file).notes

    assert "are not matched with its nodes" in note
