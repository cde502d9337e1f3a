"""llama.cpp, by the C interface inside the wheel xllamacpp: writes language models with made-up weights, and times their phases.

Structures that the interface passes by value are opaque here: their size is an upper bound, and of a context's parameters only
the first, its tokens, is set, after its default was recognised.
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latcast.errors import MeasurementError, ModelError, RuntimeFailure
from latcast.extras import require
from latcast.llm.decoder import LanguageModel, Matrix, Role
from latcast.llm.tensor_types import GGML_TYPES
from latcast.version import VERSION

DEFAULT_TOKENS, DEFAULT_BATCH, DEFAULT_STEP = 512, 2048, 512
"""llama.cpp's own tokens of a context, of a batch and of a step: by these the layout of its parameters is recognised."""

Array = NDArray[np.float64]

_TOKENS_TIMED = 5
"""Single tokens timed in a row, of which the median counts."""

FEWEST_TOKEN_ID = 5
"""Ids below are often special tokens."""

_QUANTISED_ROWS = 64
"""Rows that are quantised and then repeated: kernels take as long for them, and quantising is slow."""

_TENSORS: dict[Role, str] = {
    "query": "attn_q", "key": "attn_k", "value": "attn_v", "attention_output": "attn_output", "gate": "ffn_gate", "up": "ffn_up",
    "down": "ffn_down",
}  # fmt: skip
"""Matrices of a layer of a dense model, by llama.cpp's names."""


class _Parameters(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 256)]


class _Batch(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_int32), *((name, ctypes.c_void_p) for name in ("ids", "embeddings", "positions", "counts",
                                                                                 "sequences", "outputs"))]  # fmt: skip


def version() -> str:
    """Return the version of the wheel, as platform ids have it: year and month.

    Raises:
        MissingExtraError: The wheel is not installed.
    """
    from importlib.metadata import version as version_of

    require("running language models with llama.cpp", "xllamacpp")
    return ".".join(version_of("xllamacpp").split(".")[:2])


_QUIET = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
"""Receives llama.cpp's messages, and says nothing."""


@cache
def _library() -> Any:
    """Return llama.cpp's functions.

    Raises:
        MissingExtraError: The wheel is not installed.
    """
    require("running language models with llama.cpp", "xllamacpp")
    found = importlib.util.find_spec("xllamacpp")
    folder = Path(found.origin).parent if found and found.origin else Path()
    library = ctypes.CDLL(str(next(folder.glob("xllamacpp*.so"))), mode=ctypes.RTLD_GLOBAL)
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in (
        ("llama_backend_init", None, []),
        ("llama_log_set", None, [pointer, pointer]),
        ("llama_model_default_params", _Parameters, []),
        ("llama_context_default_params", _Parameters, []),
        ("llama_model_load_from_file", pointer, [ctypes.c_char_p, _Parameters]),
        ("llama_init_from_model", pointer, [pointer, _Parameters]),
        ("llama_model_get_vocab", pointer, [pointer]),
        ("llama_vocab_n_tokens", number, [pointer]),
        ("llama_batch_get_one", _Batch, [pointer, number]),
        ("llama_decode", number, [pointer, _Batch]),
        ("llama_synchronize", None, [pointer]),
        ("llama_get_memory", pointer, [pointer]),
        ("llama_memory_clear", None, [pointer, ctypes.c_bool]),
        ("llama_set_n_threads", None, [pointer, number, number]),
        ("llama_free", None, [pointer]),
        ("llama_model_free", None, [pointer]),
        ("ggml_quantize_chunk", ctypes.c_size_t, [number, pointer, pointer, *[ctypes.c_int64] * 3, pointer]),
        ("ggml_quantize_requires_imatrix", ctypes.c_bool, [number]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.llama_log_set(_QUIET, None)
    library.llama_backend_init()
    return library


# Files with made-up weights


def write_made_up(model: LanguageModel, path: Path) -> None:
    """Write a dense language model as a GGUF file of the architecture ``llama``, with made-up weights and no tokenizer.

    Raises:
        ModelError: The model is not dense, or a matrix has no tensor type that llama.cpp writes.
    """
    if model.expert_layers or model.recurrent or len(model.attention) != 1 or model.attention[0].window:
        raise ModelError(
            f"{model.name} is not a dense model with one kind of attention; only such are written with made-up weights"
        )
    attention = model.attention[0]
    feed_forward = next(matrix.rows for matrix in model.matrices if matrix.role == "up")
    values: dict[str, int | float | str] = {
        "general.architecture": "llama", "general.name": model.name, "general.description": f"made-up weights, latcast {VERSION}",
        "llama.block_count": model.layers, "llama.context_length": model.context_limit or 4096,
        "llama.embedding_length": model.hidden_size, "llama.feed_forward_length": feed_forward,
        "llama.attention.head_count": attention.heads, "llama.attention.head_count_kv": attention.key_value_heads,
        "llama.attention.key_length": attention.key_size, "llama.attention.value_length": attention.value_size,
        "llama.rope.dimension_count": attention.key_size, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": model.vocabulary, "tokenizer.ggml.model": "no_vocab",
    }  # fmt: skip
    _write_gguf(path, values, list(_tensors(model)))


def _tensors(model: LanguageModel) -> Iterator[tuple[str, Matrix]]:
    """Yield the tensors of a dense model: name and matrix; a norm is a matrix of one row."""
    norm = Matrix("other", 1, model.hidden_size, 1, 0, "f32")
    by_role: dict[Role, list[Matrix]] = {}
    for matrix in model.matrices:
        by_role.setdefault(matrix.role, []).extend([matrix] * round(matrix.stored))
    yield "token_embd.weight", by_role["embedding"][0]
    yield "output_norm.weight", norm
    if by_role.get("output"):
        yield "output.weight", by_role["output"][0]
    for layer in range(model.layers):
        yield f"blk.{layer}.attn_norm.weight", norm
        yield f"blk.{layer}.ffn_norm.weight", norm
        for role, name in _TENSORS.items():
            if by_role.get(role):
                yield f"blk.{layer}.{name}.weight", by_role[role][layer]


def _write_gguf(path: Path, values: dict[str, int | float | str], tensors: Sequence[tuple[str, Matrix]]) -> None:
    """Write a GGUF file of version 3: header, values, table of tensors, data aligned to 32 bytes."""
    numbers = {name: number for number, (name, _, _) in GGML_TYPES.items()}
    blocks = {name: (weights, size) for name, weights, size in GGML_TYPES.values()}
    head = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values))]
    for key, value in values.items():
        kind, packed = (
            (8, _text(value)) if isinstance(value, str) else (6, struct.pack("<f", value)) if isinstance(value, float)
            else (4, struct.pack("<I", value))
        )  # fmt: skip
        head += [_text(key), struct.pack("<I", kind), packed]
    offset = 0
    for name, matrix in tensors:
        if matrix.tensor_type not in numbers:
            raise ModelError(f"llama.cpp has no tensor type '{matrix.tensor_type}'; expected one of: {', '.join(numbers)}")
        weights, size = blocks[matrix.tensor_type]
        if matrix.columns % weights:
            raise ModelError(
                f"a row of {name} has {matrix.columns} weights, which is no multiple of {weights} ({matrix.tensor_type})"
            )
        shape = (matrix.columns,) if matrix.rows == 1 else (matrix.columns, matrix.rows)
        head += [_text(name), struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, numbers[matrix.tensor_type], offset)]
        offset += -(-(matrix.columns // weights * size * matrix.rows) // 32) * 32
    text = b"".join(head)
    with path.open("wb") as file:
        file.write(text + bytes(-len(text) % 32))
        for _, matrix in tensors:
            data = _made_up_weights(matrix, numbers[matrix.tensor_type], *blocks[matrix.tensor_type])
            file.write(data)
            file.write(bytes(-len(data) % 32))


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _made_up_weights(matrix: Matrix, number: int, weights: int, size: int) -> bytes:
    """Return the bytes of a matrix: some rows of normal numbers in its type, repeated. Extreme values would change its speed."""
    rows = min(matrix.rows, _QUANTISED_ROWS)
    if matrix.rows == 1:
        return np.ones(matrix.columns, np.float32).tobytes()
    made = (np.random.default_rng(0).standard_normal((rows, matrix.columns)) * 0.6 / matrix.columns**0.5).astype(np.float32)
    quantised = np.zeros((rows, matrix.columns // weights * size), np.uint8)
    importance = np.ones(matrix.columns, np.float32)
    library = _library()
    needed = importance.ctypes.data if library.ggml_quantize_requires_imatrix(number) else None
    library.ggml_quantize_chunk(number, made.ctypes.data, quantised.ctypes.data, 0, rows, matrix.columns, needed)
    return np.resize(quantised, (matrix.rows, quantised.shape[1])).tobytes()


# Timing


class Session:
    """A loaded language model; close it, or use it in a ``with`` block."""

    def __init__(self, path: Path, context_tokens: int, threads: int = 1) -> None:
        """Load a model.

        Raises:
            MeasurementError: llama.cpp does not load the file.
            MissingExtraError: llama.cpp is not installed.
            RuntimeFailure: It is a version whose parameters are not recognised.
        """
        self._library = _library()
        self.threads = threads
        parameters = self._library.llama_context_default_params()
        if list(parameters.words[:3]) != [DEFAULT_TOKENS, DEFAULT_BATCH, DEFAULT_STEP]:
            raise RuntimeFailure(
                f"xllamacpp {version()} has other parameters of a context than expected; use the version in constraints.txt"
            )
        parameters.words[0] = context_tokens
        self._model = self._library.llama_model_load_from_file(str(path).encode(), self._library.llama_model_default_params())
        if not self._model:
            raise MeasurementError(f"llama.cpp does not load {path}; expected a GGUF file of an architecture that it runs")
        self._context = self._library.llama_init_from_model(self._model, parameters)
        if not self._context:
            self._library.llama_model_free(self._model)
            raise MeasurementError(f"llama.cpp makes no context of {context_tokens} tokens for {path}; try fewer")
        self._library.llama_set_n_threads(self._context, threads, threads)
        self._vocabulary = int(self._library.llama_vocab_n_tokens(self._library.llama_model_get_vocab(self._model)))
        self._random = np.random.default_rng(0)
        self._tokens, self._most_tokens = 0, context_tokens

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model."""
        self._library.llama_free(self._context)
        self._library.llama_model_free(self._model)

    def clear(self) -> None:
        """Forget all tokens."""
        self._library.llama_memory_clear(self._library.llama_get_memory(self._context), False)
        self._tokens = 0

    def run(self, tokens: int) -> float:
        """Return the seconds that so many random tokens take, after those that were run already.

        Of one thread the processor's time counts, which other programs do not lengthen; of several the clock.

        Raises:
            MeasurementError: The context is full, or the model failed.
        """
        self._tokens += tokens
        if self._tokens > self._most_tokens:
            raise MeasurementError(
                f"found {self._tokens} tokens in a context of {self._most_tokens}; a longer context holds them"
            )
        least = min(FEWEST_TOKEN_ID, self._vocabulary - 1)
        ids = self._random.integers(least, self._vocabulary, tokens).astype(np.int32)
        clock = time.process_time if self.threads == 1 else time.perf_counter
        began = clock()
        for first in range(0, tokens, DEFAULT_STEP):
            part = ids[first : first + DEFAULT_STEP]
            code = self._library.llama_decode(self._context, self._library.llama_batch_get_one(part.ctypes.data, len(part)))
            if code:
                raise MeasurementError(f"llama.cpp could not run {tokens} tokens: its code is {code}, expected 0")
        self._library.llama_synchronize(self._context)
        return clock() - began


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds that the phases of a model took.

    Attributes:
        prefill_s: Tokens of a prompt to the time it took.
        decode_s: Tokens before it to the time of one further token.
        spread: Standard deviation of logarithms: of repeats, the mean over what was timed, or of the reference's slowdown.
    """

    prefill_s: dict[int, float]
    decode_s: dict[int, float]
    spread: float


class Reference:
    """A model that is timed in turn with others: its slowdown since the first time is the state of the host."""

    def __init__(self, session: Session, prompt: int = 64, rounds: int = 6) -> None:
        """Time the model as the host is now, which counts as its usual state."""
        self._session, self._prompt = session, prompt
        session.run(8)
        self._usual = np.median([self._times() for _ in range(rounds)], axis=0)

    def _times(self) -> tuple[float, float]:
        self._session.clear()
        prompt = self._session.run(self._prompt)
        self._session.clear()
        return prompt, float(np.median([self._session.run(1) for _ in range(5)]))

    def slowdown(self) -> Array:
        """Return how many times as long as usual a prompt and a token take, (2,)."""
        return np.asarray(self._times() / self._usual)


def time_phases(session: Session, prompts: Sequence[int], *, repeats: int = 3, reference: Reference | None = None) -> PhaseTimes:
    """Time prompts, and single tokens after nothing and after each prompt.

    Args:
        session: The model to time; its context holds the longest prompt and ten more tokens.
        prompts: Tokens of prompts.
        repeats: Rounds, of which the median counts.
        reference: A model timed before and after each prompt, whose slowdown is divided out.
    """
    prefill: dict[int, list[float]] = {tokens: [] for tokens in prompts}
    decode: dict[int, list[float]] = {tokens: [] for tokens in (0, *prompts)}
    session.run(8)
    before = reference.slowdown() if reference else np.ones(2)
    slowdowns = [before]
    for _ in range(repeats):
        for prompt in (0, *prompts):
            session.clear()
            prompt_s = session.run(prompt) if prompt else 0.0
            token_s = float(np.median([session.run(1) for _ in range(_TOKENS_TIMED)]))
            after = reference.slowdown() if reference else before
            slowdowns.append(after)
            slowdown = np.sqrt(before * after)
            if prompt:
                prefill[prompt].append(prompt_s / float(slowdown[0]))
            decode[prompt].append(token_s / float(slowdown[1]))
            before = after
    repeated = [*prefill.values(), *decode.values()] if reference is None else np.array(slowdowns).T
    return PhaseTimes(
        {tokens: float(np.median(each)) for tokens, each in prefill.items()},
        {tokens: float(np.median(each)) for tokens, each in decode.items()},
        float(np.mean([np.std(np.log(each)) for each in repeated])),
    )
