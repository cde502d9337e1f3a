"""What is known of a language model without its weights: matrices, attention layers, recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal[
    "embedding", "layer_embedding", "query", "key", "value", "query_key_value", "attention_output", "gate", "up", "down",
    "expert_gate", "expert_up", "expert_down", "router", "recurrent", "recurrent_output",
    "projection", "output", "other",
]  # fmt: skip
"""What a matrix is for. ``layer_embedding`` are per-layer embeddings, of which a token reads a row; ``output`` is the head;
``query_key_value`` are the three in one matrix, of linear attention too; ``other`` stays unquantised, as ``router`` does."""

FEED_FORWARD: frozenset[Role] = frozenset({"gate", "up", "down", "expert_gate", "expert_up", "expert_down"})
EXPERTS: frozenset[Role] = frozenset({"expert_gate", "expert_up", "expert_down"})
LOOKED_UP: frozenset[Role] = frozenset({"embedding", "layer_embedding"})
"""Tables of which a token reads one row: no multiplication, no bandwidth."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Equal weight matrices: one per layer, or one per layer and expert."""

    role: Role
    rows: int
    """Outputs."""
    columns: int
    """Inputs: the length of a row, in whose blocks weights are quantised."""
    stored: float
    """Copies that the file holds; 0 where another matrix is used (a tied head)."""
    used: float
    """Copies that one token multiplies by: of experts the routed and the shared ones, of a looked-up table 0, of a tied head 1.
    Both may be fractions where a recipe gives a share of the layers another type."""
    tensor_type: str = ""
    """Type of its weights in lower case (``q4_k``, ``f16``, ``int4_g128``); empty until the model is quantised."""

    @property
    def parameters(self) -> float:
        """Return the weights of the stored copies."""
        return self.rows * self.columns * self.stored


@dataclass(frozen=True, slots=True)
class AttentionLayers:
    """Layers with attention of one kind."""

    layers: int
    heads: int
    key_value_heads: int
    key_size: int
    """Size of a head's keys; of latent attention the size of the compressed row (with its rotary part)."""
    value_size: int
    """Size of a head's values; 0 of latent attention, whose cached row serves both."""
    window: int | None = None
    """Tokens that a sliding window sees; none where all are seen."""
    caching: int | None = None
    """Layers that own a cache; None where all do (Gemma 3n and 4 share caches between layers)."""


@dataclass(frozen=True, slots=True)
class RecurrentLayers:
    """Layers with a state instead of a cache: state space, linear attention, short convolution."""

    kind: Literal["mamba", "mamba2", "gated_delta", "rwkv", "short_convolution", "other"]
    layers: int
    state_elements: int
    """Numbers that a layer's state holds, each read and written once a token."""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A decoder-only language model, known by its shapes."""

    name: str
    architecture: str
    """Family and generation as GGUF spells it: ``llama``, ``qwen2``, ``gemma3``."""
    layers: int
    hidden_size: int
    vocabulary: int
    context_limit: int | None
    """Tokens it was made for; None where unknown."""
    matrices: tuple[Matrix, ...]
    attention: tuple[AttentionLayers, ...]
    recurrent: tuple[RecurrentLayers, ...] = ()
    expert_layers: int = 0
    """Layers that route tokens to experts."""
    vectors: int = 0
    """Norms and biases that a token meets, each a kernel or a part of one."""
    vector_parameters: int = 0
    """Weights of norms and biases."""
    quantisation: str = ""
    """Recipe of its tensor types (``q4_k_m``); empty where none was applied or a file mixes types by no known recipe."""
    file_bytes: int | None = None
    """Size of the weights in its file, where a file was read."""
    notes: tuple[str, ...] = ()
    """What was not known, in sentences: each becomes a warning of the prediction, and its interval is wider."""

    @property
    def parameters(self) -> float:
        """Return all weights, norms and biases too."""
        return sum(matrix.parameters for matrix in self.matrices) + self.vector_parameters

    @property
    def active_parameters(self) -> float:
        """Return the weights that one token is multiplied by: of a mixture of experts those of the experts that it is sent to."""
        return sum(matrix.rows * matrix.columns * matrix.used for matrix in self.matrices)
