"""The quantities that the two phases of a language model read and compute, by term, which :mod:`latcast.llm.prices` prices.

A term names a quantity: ``("weights", "q4_k")``, ``("weights", "q4_k", "experts")``, ``("weights", "q6_k", "head")``. Bytes are
in GB, FLOPs in TFLOP.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from latcast.errors import ModelError
from latcast.llm.decoder import EXPERTS, FEED_FORWARD, AttentionLayers, LanguageModel, Matrix
from latcast.llm.tensor_types import bytes_of

Term = tuple[str, ...]

BATCH_TOKENS = 512
"""Tokens that llama.cpp computes at once (``--ubatch-size``)."""

_RECURRENT_KERNELS: Mapping[str, int] = {
    "gated_delta": 18, "mamba": 8, "mamba2": 10, "rwkv": 30, "short_convolution": 4, "other": 10,
}  # fmt: skip
"""Kernels of a layer with a state beside its matrices, counted in the graphs that llama.cpp builds."""

CACHE_BYTES = 2
"""Bytes of a number of the cache: half precision, as runtimes keep it unless told otherwise."""

_RUNTIME_BYTES: Mapping[str, float] = {"openvino": 970e6, "llama.cpp": 100e6, "mlx": 180e6}
"""Bytes of a process before it has a model, by the beginning of the runtime's name."""


@dataclass(frozen=True)
class Memory:
    """Bytes that a model takes while it answers."""

    weights: float
    cache: float
    """Keys and values of the context, and recurrent states."""
    compute: float
    """Activations and logits."""
    runtime: float
    """The process and its driver without a model, the median over published measurements."""

    @property
    def total(self) -> float:
        """Return the sum."""
        return self.weights + self.cache + self.compute + self.runtime


def decode_quantities(model: LanguageModel, context_tokens: float) -> dict[Term, float]:
    """Return what generating one token takes, after ``context_tokens``.

    Raises:
        ModelError: The model is not quantised, or its context is shorter.
    """
    require(model, context_tokens)
    found: dict[Term, float] = defaultdict(float)
    for matrix in model.matrices:
        if matrix.used:
            found[_by_type("weights", matrix)] += bytes_of(matrix, matrix.used) / 1e9
            found["unpack", matrix.tensor_type] += matrix.rows * matrix.columns * matrix.used / 1e9
            found["passed", matrix.tensor_type] += matrix.used
    seen = [(layers, min(context_tokens, layers.window or context_tokens)) for layers in model.attention]
    cache = sum(
        layers.layers * layers.key_value_heads * (layers.key_size + layers.value_size) * tokens for layers, tokens in seen
    )
    found["cache",] = cache * CACHE_BYTES / 1e9
    found["attention",] = sum(_attention_flops(layers) * tokens for layers, tokens in seen) / 1e12
    found["attended",] = sum(layers.layers * tokens for layers, tokens in seen) / 1e6
    found["kernel",] = kernels(model)
    found["constant",] = 1.0
    for layers in model.recurrent:
        found["recurrent_layer",] += layers.layers * _RECURRENT_KERNELS[layers.kind] / 16
        found["state",] += 8 * layers.layers * layers.state_elements / 1e9  # 32 bits, read and written
        found["passed", "recurrent"] += layers.layers * _RECURRENT_KERNELS[layers.kind]
    if model.expert_layers:
        found["expert_layer",] = model.expert_layers
    if _has_layer_embeddings(model):
        found["embedding_layer",] = model.layers
    return dict(found)


def prefill_quantities(
    model: LanguageModel, prompt_tokens: int, cached_tokens: int = 0, runtime: str = "llama.cpp"
) -> dict[Term, float]:
    """Return what reading a prompt takes.

    Args:
        model: A quantised model.
        prompt_tokens: Tokens that are read.
        cached_tokens: Tokens read before, whose keys and values are cached.
        runtime: Name without version; llama.cpp computes the last feed-forward part for the last token alone, and OpenVINO the
            head for all tokens in some releases.

    Raises:
        ModelError: The model is not quantised, or its context is shorter.
    """
    require(model, prompt_tokens + cached_tokens)
    tokens = -(-prompt_tokens // 32) * 32 if runtime.startswith("openvino") else prompt_tokens
    found: dict[Term, float] = defaultdict(float)
    last = ((model.layers - 1) * tokens + 1) / (model.layers * tokens) if runtime.startswith("llama.cpp") else 1.0
    for matrix in model.matrices:
        if not matrix.used:
            continue
        once = matrix.role == "output"
        if once and runtime.startswith("openvino"):
            found["whole_head",] += 2 * matrix.rows * matrix.columns * tokens / 1e12
        batches = 1 if once or not runtime.startswith("llama.cpp") else -(-tokens // BATCH_TOKENS)
        read = 1.0 if once else min(matrix.stored, matrix.used * tokens / batches) * batches
        found[_by_type("weights", matrix)] += bytes_of(matrix, read) / 1e9
        if not once:
            part = matrix.rows * matrix.columns * (last if matrix.role in FEED_FORWARD else 1.0)
            found[_by_type("multiply", matrix)] += 2 * part * matrix.used * tokens / 1e12
            found["unpack", matrix.tensor_type] += part * read / 1e9
    for layers in model.attention:
        seen = _tokens_seen(tokens, cached_tokens, layers.window)
        size = "128" if layers.key_size in (64, 128) and layers.value_size else "256" if layers.key_size == 256 else "odd"
        found["attention", size] += _attention_flops(layers) * seen / 1e12
    found["kernel",] = kernels(model)
    found["elements",] = kernels(model) / 16 * tokens * model.hidden_size / 1e9
    found["constant",] = 1.0
    for recurrent in model.recurrent:
        found["scan",] += 8 * recurrent.layers * recurrent.state_elements * tokens / 1e12
        found["recurrent_layer",] += recurrent.layers * _RECURRENT_KERNELS[recurrent.kind] / 16 * tokens / 1e6
    if model.expert_layers:
        found["expert_layer",] = model.expert_layers * tokens / 1e6
    return dict(found)


def memory(model: LanguageModel, context_tokens: int, runtime: str = "llama.cpp", mapped: bool = False) -> Memory:
    """Return the memory of a quantised model with room for ``context_tokens``.

    llama.cpp holds a tied head twice, as a table and in the layout of its matrix product, unless weights are ``mapped`` from the
    file for all units, as Metal does; it has room for contexts in steps of 256 and for the logits of a whole batch.

    Raises:
        ModelError: The model is not quantised, or its context is shorter.
    """
    require(model, context_tokens)
    in_llama = runtime.startswith("llama.cpp")
    twice = in_llama and not mapped
    weights = sum(bytes_of(matrix, 1.0 if twice and matrix.role == "output" else matrix.stored) for matrix in model.matrices)
    room = -(-context_tokens // 256) * 256 if in_llama else context_tokens
    batch = min(BATCH_TOKENS, room)
    cached = sum(
        (layers.layers if layers.caching is None else layers.caching)
        * layers.key_value_heads
        * (layers.key_size + layers.value_size)
        * min(room, layers.window + batch if layers.window else room)
        for layers in model.attention
    )
    states = sum(4 * layers.layers * layers.state_elements for layers in model.recurrent)
    logits = 4 * model.vocabulary * (batch if in_llama else 1)
    widest = max((matrix.rows for matrix in model.matrices if matrix.role in ("gate", "up", "query_key_value")), default=0)
    activations = 4 * batch * (3 * model.hidden_size + 2 * widest)
    own = next((size for name, size in _RUNTIME_BYTES.items() if runtime.startswith(name)), 0.0)
    return Memory(
        weights + 4 * model.vector_parameters,
        cached * CACHE_BYTES + states,
        float(max(logits, activations) + 4 * batch * model.hidden_size),
        own,
    )


def kernels(model: LanguageModel) -> float:
    """Return how many kernels a token runs, as llama.cpp builds its graph: products, norms, rotations, sums, attention."""
    products = sum(matrix.used for matrix in model.matrices if matrix.role not in EXPERTS)
    feed_forward = sum(matrix.used for matrix in model.matrices if matrix.role == "down")
    attention = sum(
        3 * layers.layers + 2 * (layers.layers if layers.caching is None else layers.caching) for layers in model.attention
    )
    latent = sum(4 * layers.layers for layers in model.attention if not layers.value_size)
    recurrent = sum(_RECURRENT_KERNELS[layers.kind] * layers.layers for layers in model.recurrent)
    experts = 13 * model.expert_layers
    embeddings = 5 * model.layers + 10 if _has_layer_embeddings(model) else 0
    return products + feed_forward + attention + latent + recurrent + experts + embeddings + model.vectors + 2 * model.layers


def require(model: LanguageModel, tokens: float) -> None:
    """Raise a ModelError where a model is not quantised, or its context holds fewer tokens."""
    if tokens < 0:
        raise ModelError(f"{model.name}: found {tokens:g} tokens, expected 0 or more")
    if model.context_limit is not None and tokens > model.context_limit:
        raise ModelError(
            f"{model.name}: found a context of {tokens:g} tokens, expected at most the {model.context_limit} that it was made for"
        )
    if not all(matrix.tensor_type for matrix in model.matrices):
        raise ModelError(f"{model.name}: found no types of weights; name a quantisation, as in '{model.name}:q4_k_m'")


def _by_type(what: str, matrix: Matrix) -> Term:
    part = ("experts",) if matrix.role in EXPERTS else ("head",) if matrix.role == "output" else ()
    return (what, matrix.tensor_type, *part)


def _attention_flops(layers: AttentionLayers) -> float:
    """Return the FLOPs of all heads of some layers for one token that sees one other."""
    return 2 * layers.heads * (layers.key_size + (layers.value_size or layers.key_size)) * layers.layers


def _tokens_seen(tokens: int, cached: int, window: int | None) -> float:
    """Return the sum over a prompt's tokens of the tokens that each one sees."""
    if window is None or cached + tokens <= window:
        return tokens * (cached + tokens / 2)
    growing = max(0, window - cached)
    return growing * (cached + growing / 2) + (tokens - growing) * window


def _has_layer_embeddings(model: LanguageModel) -> bool:
    return any(matrix.role == "layer_embedding" for matrix in model.matrices)
