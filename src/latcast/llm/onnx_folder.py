"""A folder of onnxruntime-genai: sizes from ``genai_config.json``, matrices from the graph, whose weights are not read.

The graph is one of onnxruntime-genai's model builder: products are MatMulNBits, MatMul or QMoE, named after their layer and part.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import onnx

from latcast.errors import ModelError
from latcast.graph.importers.onnx_file import check_texts, node_of, read_without_weights
from latcast.llm.configuration import Facts
from latcast.llm.decoder import AttentionLayers, LanguageModel, Matrix, Role
from latcast.llm.tensor_types import bits_of
from latcast.reading import read_json

_ROLES: tuple[tuple[str, Role], ...] = (
    (r"qkv", "query_key_value"), (r"\bq_proj|query", "query"), (r"\bk_proj|key", "key"), (r"\bv_proj|value", "value"),
    (r"\bo_proj|attn.*(dense|out_proj)", "attention_output"), (r"gate_up|up_proj|fc1|fc_in|h_to_4h", "up"),
    (r"gate_proj", "gate"), (r"down_proj|fc2|fc_out|dense_4h_to_h", "down"),
    (r"router|gate/", "router"), (r"lm_head|embed_out", "output"),
)  # fmt: skip
_FLOATS = {onnx.TensorProto.FLOAT: "f32", onnx.TensorProto.FLOAT16: "f16", onnx.TensorProto.BFLOAT16: "bf16"}
_ATTENTION = ("GroupQueryAttention", "MultiHeadAttention", "Attention")


def read_onnx_folder(folder: Path) -> LanguageModel:
    """Return the model of a folder.

    Raises:
        ModelError: Its configuration or graph cannot be read, states no sizes, or has no attention.
    """
    configuration = read_json(folder / "genai_config.json", error=ModelError)
    model = configuration.get("model") if isinstance(configuration, dict) else None
    decoder = model.get("decoder") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(decoder, dict):
        raise ModelError(
            f"{folder}: found no model with a decoder in genai_config.json, expected one by onnxruntime-genai's builder"
        )
    file = decoder.get("filename")
    if not isinstance(file, str) or Path(file).name != file:
        raise ModelError(
            f"{folder}: found the file {str(file)[:60]!r} in genai_config.json, expected the name of a file in the folder"
        )
    facts, sizes = Facts(decoder, str(folder)), Facts(model, str(folder))
    graph = read_without_weights(folder / file).graph
    matrices, vectors = _matrices(graph)
    hidden, vocabulary = facts.size("hidden_size"), sizes.size("vocab_size")
    layers, attention = facts.size("num_hidden_layers"), _attention(graph, facts.size("head_size"), str(folder))
    if (attending := sum(each.layers for each in attention)) != layers:
        raise ModelError(f"{folder}: found attention in {attending} layers of the graph, expected {layers} by genai_config.json")
    widths = {columns for role, _, columns, *_ in matrices if role in ("query", "query_key_value")}
    if not widths <= {hidden}:
        raise ModelError(f"{folder}: found queries of {min(widths)} numbers in the graph, expected {hidden} by genai_config.json")
    embedding = next(
        (each.dims for each in graph.initializer if "embed_tokens" in each.name and len(each.dims) == 2), (vocabulary, hidden)
    )
    matrices["embedding", vocabulary, hidden, "f16" if embedding[1] == hidden else "int4_g32", 1.0, 0.0] += 1
    family = str(model.get("type", ""))
    return LanguageModel(
        name=str(folder),
        architecture=family,
        layers=layers,
        hidden_size=hidden,
        vocabulary=vocabulary,
        context_limit=sizes.number("context_length", default=0) or None,
        matrices=tuple(
            Matrix(role, rows, columns, stored * count, used * count, kind)
            for (role, rows, columns, kind, stored, used), count in matrices.items()
        ),
        attention=attention,
        expert_layers=sum(node.op_type in ("QMoE", "MoE") for node in graph.node),
        vectors=vectors,
        vector_parameters=vectors * hidden,
        quantisation="onnx-int4" if any(kind.startswith("int4") for _, _, _, kind, _, used in matrices if used) else "",
    )


def _matrices(graph: onnx.GraphProto) -> tuple[Counter[tuple[Role, int, int, str, float, float]], int]:
    """Return equal matrices by role, rows, columns, type, stored and used copies; and how many vectors there are."""
    check_texts(*(each.name for each in graph.initializer))
    weights = {each.name: each for each in graph.initializer}
    found: Counter[tuple[Role, int, int, str, float, float]] = Counter()
    for node in map(node_of, graph.node):
        numbers = {name: value for name, value in node.attributes.items() if isinstance(value, int)}
        role: Role = next((role for pattern, role in _ROLES if re.search(pattern, node.name)), "other")
        given = [weights[name] for name in node.inputs if name in weights]
        if node.op_type == "MatMulNBits":
            kind = f"int{numbers.get('bits', 4)}_g{numbers.get('block_size', 32)}"
            found[role, numbers.get("N", 0), numbers.get("K", 0), kind, 1.0, 1.0] += 1
        elif node.op_type == "MatMul" and given and len(given[-1].dims) == 2:
            columns, rows = given[-1].dims
            found[role, rows, columns, _FLOATS.get(given[-1].data_type, "f32"), 1.0, 1.0] += 1
        elif node.op_type == "QMoE":
            bits, active = numbers.get("expert_weight_bits", 4), numbers.get("k", 1)
            stacks = [tensor.dims for tensor in given if len(tensor.dims) == 3]
            parts: tuple[Role, Role] = ("expert_up", "expert_down")
            for part, (experts, rows, packed) in zip(parts, stacks, strict=False):
                found[part, rows, packed * 8 // max(1, bits), f"int{bits}_g32", experts, min(active, experts)] += 1
    for role, rows, columns, kind, stored, used in found:
        if not (0 < rows < 2**31 and 0 < columns < 2**31 and 0 < used <= stored):
            raise ModelError(f"found a product ({role}) of {rows} x {columns}, {used:g} of {stored:g}, expected positive sizes")
        bits_of(kind)
    return found, sum(len(each.dims) == 1 for each in graph.initializer if "norm" in each.name or "bias" in each.name)


def _attention(graph: onnx.GraphProto, size: int, name: str) -> tuple[AttentionLayers, ...]:
    counts: Counter[tuple[int, int, int]] = Counter()
    for node in map(node_of, graph.node):
        if node.op_type in _ATTENTION:
            stated = {name: value for name, value in node.attributes.items() if isinstance(value, int)}
            heads = stated.get("num_heads", 0)
            counts[heads, stated.get("kv_num_heads", 0) or heads, max(0, stated.get("local_window_size", 0))] += 1
    if not counts or not all(0 < groups <= heads < 2**16 and heads % groups == 0 for heads, groups, _ in counts):
        raise ModelError(f"{name}: found no attention with its numbers of heads in the graph, expected GroupQueryAttention")
    return tuple(
        AttentionLayers(layers, heads, groups, size, size, window or None) for (heads, groups, window), layers in counts.items()
    )
