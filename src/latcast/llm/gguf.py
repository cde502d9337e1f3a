"""The header of a GGUF file as a :class:`~latcast.llm.decoder.LanguageModel`; weights and tokenizers are skipped.

The package ``gguf`` maps the whole file and makes an object of every token: too slow, and of no use for a file that is cut off
or not local. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; names of tensors: llama.cpp's ``llama-arch.cpp``.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from latcast.errors import ModelError
from latcast.llm.configuration import ENCODERS, MOST_LAYERS, architectures
from latcast.llm.decoder import LOOKED_UP, AttentionLayers, LanguageModel, Matrix, RecurrentLayers, Role
from latcast.llm.tensor_types import FILE_TYPES, GGML_TYPES
from latcast.reading import require_regular

MOST_HEADER_BYTES = 96_000_000
"""Gemma's header, of 262,000 tokens and 515,000 merges, takes 15 MB."""

MOST_KEYS, MOST_TENSORS, MOST_ITEMS, MOST_KEPT_ITEMS, MOST_FILES = 4_096, 65_536, 4_000_000, 4_096, 1_000

MOST_TEXT_BYTES, MOST_WEIGHTS = 65_536, 2**48

_NUMBERS: Mapping[int, str] = dict(zip((*range(8), 10, 11, 12), (f"<{code}" for code in "BbHhIif?Qqd"), strict=True))
"""Codes of :mod:`struct` by type of value."""

_TEXT, _LIST = 8, 9
_LENGTH = struct.Struct("<Q")

_ROLES: tuple[tuple[str, Role], ...] = (
    (r"token_embd", "embedding"), (r"per_layer_token_embd", "layer_embedding"), (r"output", "output"),
    (r"attn_qkv", "query_key_value"), (r"attn_q(_a|_b)?", "query"), (r"attn_k(_b)?|attn_kv(_a_mqa|_b)?", "key"),
    (r"attn_v(_b)?", "value"), (r"attn_output", "attention_output"), (r"ffn_(gate|gate_up)_(ch)?exps", "expert_gate"),
    (r"ffn_up_(ch)?exps", "expert_up"), (r"ffn_down_(ch)?exps", "expert_down"), (r"ffn_gate_inp(_shexp)?", "router"),
    (r"ffn_gate(_shexp)?", "gate"), (r"ffn_up(_shexp)?", "up"), (r"ffn_down(_shexp)?", "down"),
    (r"ssm_out|shortconv\.out_proj|time_mix_output", "recurrent_output"),
    (r"ssm_(in|x|dt|ba|alpha|beta|f_[ab]|g_[ab])|attn_gate|shortconv\.in_proj|time_mix_(key|value|receptance|gate)", "recurrent"),
    (r"channel_mix_(key|receptance)", "up"), (r"channel_mix_value", "down"), (r"inp_gate|proj|nextn\.eh_proj", "projection"),
)  # fmt: skip
"""Roles by the name of a tensor without its layer and ``.weight``; experts have a copy each in a third dimension."""

_TABLES = ("rope_", "position_embd", "token_types")


class _Tensor(NamedTuple):
    name: str
    dimensions: tuple[int, ...]
    """Row length first."""
    type_number: int
    offset: int


def read_gguf(path: Path, name: str) -> LanguageModel:
    """Return the model of a GGUF file, or of all parts of a split one, whichever part is named.

    Raises:
        ModelError: It is no GGUF file of a decoder, its header is cut off or larger than any, or a part is missing.
    """
    values, tensors = _read_header(_part(path, 1))
    parts = values.get("split.count", 1)
    if type(parts) is not int or not 0 <= parts <= MOST_FILES:
        raise ModelError(f"{name}: found {parts} parts, expected at most {MOST_FILES}")
    for number in range(2, parts + 1):
        tensors += _read_header(_part(path, number, parts))[1]
    return _Decoder(values, tensors, name).model()


def _part(path: Path, number: int, parts: int = 0) -> Path:
    """Return the path of a part of a split file; the file itself where it is not split.

    Raises:
        ModelError: The name of a split file does not say which part it is.
    """
    found = re.fullmatch(r"(.*-)(\d{5})(-of-\d{5}\.gguf)", path.name)
    if found is None and parts:
        raise ModelError(f"{path}: found a part of {parts}, expected a name that ends in -00001-of-{parts:05}.gguf")
    return path if found is None else path.with_name(f"{found[1]}{number:05}{found[3]}")


class _Cursor:
    """A file read from its beginning, no further than needed."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path, self.data, self.at = file, path, b"", 0

    def require(self, count: int) -> None:
        """Read on until so many bytes follow.

        Raises:
            ModelError: The file ends before, or the header is too long.
        """
        end = self.at + count
        while len(self.data) < end:
            if end > MOST_HEADER_BYTES:
                raise ModelError(
                    f"{self.path}: found a header of more than {MOST_HEADER_BYTES / 1e6:g} MB, expected at most that"
                )
            more = self.file.read(max(1 << 20, min(end, 2 * len(self.data)) - len(self.data)))
            if not more:
                raise ModelError(f"{self.path}: the file ends within its header, after {len(self.data)} bytes; get it again")
            self.data += more

    def number(self, form: str) -> Any:
        size = struct.calcsize(form)
        self.require(size)
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value

    def count(self, most: int, what: str) -> int:
        value: int = self.number("<Q")
        if value > most:
            raise ModelError(f"{self.path}: found {value} {what}, expected at most {most}")
        return value

    def text(self) -> str:
        size = self.count(MOST_TEXT_BYTES, "bytes of a name")
        self.require(size)
        self.at += size
        return self.data[self.at - size : self.at].decode(errors="replace")

    def value(self, kind: int, keep: bool) -> Any:
        """Return a value of some type; None of a text or list that is not kept.

        Raises:
            ModelError: There is no such type, or a list is nested or too long.
        """
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text() if keep else self.skip_texts(1)
        if kind != _LIST:
            raise ModelError(f"{self.path}: found a value of type {kind}, expected one of 0 to 12; is it damaged?")
        inner, count = self.number("<I"), self.count(MOST_ITEMS, "items of a list")
        if inner == _TEXT:
            return self.skip_texts(count)
        if inner not in _NUMBERS:
            raise ModelError(f"{self.path}: found a list of type {inner}, expected numbers or texts; is it damaged?")
        form = f"<{count}{_NUMBERS[inner][1]}"
        self.require(size := struct.calcsize(form))
        self.at += size
        kept = keep and count <= MOST_KEPT_ITEMS
        return list(struct.unpack_from(form, self.data, self.at - size)) if kept else None

    def skip_texts(self, count: int) -> None:
        """Move past texts, a tokenizer's hundred thousands too, which takes nearly all the time of reading a header."""
        unpack, data, at, end = _LENGTH.unpack_from, self.data, self.at, len(self.data) - 8
        for _ in range(count):
            if at > end:
                self.at = at
                self.require(8)
                data, end = self.data, len(self.data) - 8
            at += 8 + unpack(data, at)[0]
        self.at = at
        self.require(0)


def _read_header(path: Path) -> tuple[dict[str, Any], list[_Tensor]]:
    require_regular(path, error=ModelError)
    try:
        with path.open("rb") as file:
            return _parse(_Cursor(file, path))
    except OSError as problem:
        raise ModelError(f"cannot read {path}: {problem.strerror or problem}") from problem


def _parse(cursor: _Cursor) -> tuple[dict[str, Any], list[_Tensor]]:
    path = cursor.path
    cursor.require(4)
    if cursor.data[:4] != b"GGUF":
        raise ModelError(f"{path}: found a file that begins with {cursor.data[:4]!r}, expected GGUF; get it again")
    cursor.at = 4
    if (version := cursor.number("<I")) not in (2, 3):
        raise ModelError(f"{path}: found GGUF of version {version}, expected 2 or 3 with the lowest byte first; convert it again")
    tensor_count, key_count = cursor.count(MOST_TENSORS, "tensors"), cursor.count(MOST_KEYS, "keys")
    values: dict[str, Any] = {}
    for _ in range(key_count):
        key = cursor.text()
        value = cursor.value(cursor.number("<I"), keep=not key.startswith("tokenizer."))
        if value is not None:
            values[key] = value
    tensors = []
    for _ in range(tensor_count):
        name, rank = cursor.text(), cursor.number("<I")
        if not 1 <= rank <= 4:
            raise ModelError(f"{path}: {name}: found {rank} dimensions, expected 1 to 4; is it damaged?")
        dimensions = tuple(cursor.number("<Q") for _ in range(rank))
        if not 0 < prod(dimensions) <= MOST_WEIGHTS:
            raise ModelError(f"{path}: {name}: found a tensor of {dimensions}, expected 1 to {MOST_WEIGHTS} weights")
        tensors.append(_Tensor(name, dimensions, cursor.number("<I"), cursor.number("<Q")))
    return values, tensors


class _Decoder:
    """A model put together from the values and tensors of a header."""

    def __init__(self, values: Mapping[str, Any], tensors: list[_Tensor], name: str) -> None:
        self.values, self.name = values, name
        architecture = values.get("general.architecture")
        if not isinstance(architecture, str):
            raise ModelError(f"{name}: found no 'general.architecture', expected the name of a decoder's")
        if ENCODERS.search(architecture):
            raise ModelError(
                f"{name}: found the architecture '{architecture}', expected a decoder; not a projector or an encoder"
            )
        self.architecture = architecture
        self.hidden = self.number("embedding_length", least=1)
        blocks = self.number("block_count", least=1, most=MOST_LAYERS)
        self.layers = blocks - self.number("nextn_predict_layers", 0, most=blocks - 1)
        self.notes: list[str] = []
        self.by_layer: dict[int, set[str]] = defaultdict(set)
        self.matrices: dict[tuple[Role, int, int, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.vectors = self.vector_parameters = 0
        self.file_bytes = 0.0
        ends = sorted({tensor.offset for tensor in tensors})
        following = dict(pairwise(ends))
        for tensor in tensors:
            self._add(tensor, following.get(tensor.offset))
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise ModelError(f"{name}: found a tensor twice, expected each once; is it damaged?")
        if not set(range(self.layers)) <= self.by_layer.keys() <= set(range(blocks)):
            raise ModelError(f"{name}: found tensors of {len(self.by_layer)} layers, expected {self.layers} by its header")

    def value(self, key: str) -> Any:
        return self.values.get(f"{self.architecture}.{key}")

    def number(self, key: str, default: int | None = None, least: int = 0, most: int = 2**31 - 1) -> int:
        """Return a whole number under the architecture's prefix; of a list of layers' the largest.

        Raises:
            ModelError: It is missing without a default, or is something else.
        """
        value = self.value(key)
        if isinstance(value, list) and value and all(type(each) is int for each in value):
            value = max(value)
        if value is None and default is not None:
            return default
        if type(value) is not int or not least <= value <= most:
            found = f"no '{self.architecture}.{key}'" if value is None else f"{self.architecture}.{key} = {str(value)[:60]}"
            raise ModelError(f"{self.name}: found {found}, expected a decoder's header with a number from {least} to {most}")
        return value

    def _add(self, tensor: _Tensor, following: int | None) -> None:
        """Count a tensor as a matrix by its role, or as a vector."""
        layer, plain = -1, tensor.name
        if found := re.fullmatch(r"blk\.(\d{1,5})\.(.+)", plain):
            layer, plain = int(found[1]), found[2]
            self.by_layer[layer].add(plain.removesuffix(".weight"))
        kind, size = _type_and_bytes(tensor, following)
        if kind.startswith("bits"):
            self._note(f"the type {tensor.type_number} of some weights is not known: priced as others of {kind[4:]} bits")
        self.file_bytes += size
        columns, *rest = tensor.dimensions
        if not rest or (plain.endswith(".bias") or "_norm" in plain):
            self.vectors += 1
            self.vector_parameters += prod(tensor.dimensions)
            return
        stem = plain.removesuffix(".weight")
        role: Role = next((role for pattern, role in _ROLES if re.fullmatch(pattern, stem)), "other")
        copies = rest[1] if role.startswith("expert_") and len(rest) > 1 else 1
        rows = prod(rest) // copies
        used = float(role not in LOOKED_UP and not stem.startswith(_TABLES))
        if role.startswith("expert_"):
            used = float(self.number("expert_used_count", least=1))
            if used > copies:
                raise ModelError(f"{self.name}: found {used:g} experts for each token of {copies}, expected at most all")
        if layer >= self.layers:  # which predict further tokens
            used = 0.0
        counted = self.matrices[role, rows, columns, kind]
        counted[0] += copies
        counted[1] += used

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def model(self) -> LanguageModel:
        known = {entry.get("gguf", kind.replace("_", "")): entry for kind, entry in architectures().items()}
        if self.architecture not in known:
            self._note(f"the architecture '{self.architecture}' is not known: what a token reads is counted from the tensors")
        facts, file_type = known.get(self.architecture, {}), self.values.get("general.file_type")
        embeddings = [key for key in self.matrices if key[0] == "embedding"]
        if not embeddings:
            raise ModelError(
                f"{self.name}: found no tensor 'token_embd.weight', expected a decoder; not a projector or an encoder"
            )
        _, vocabulary, width, kind = embeddings[0]
        if width != self.hidden:
            raise ModelError(f"{self.name}: found an embedding of {width} numbers, expected {self.hidden} by its header")
        attention, recurrent = self._attention(facts), self._recurrent()
        if not attention and not recurrent:
            raise ModelError(f"{self.name}: found layers without attention and without a state, expected a decoder's")
        if not any(key[0] == "output" for key in self.matrices):
            self.matrices["output", vocabulary, width, kind] = [0.0, 1.0]
        return LanguageModel(
            name=self.name,
            architecture=self.architecture,
            layers=self.layers,
            hidden_size=self.hidden,
            vocabulary=vocabulary,
            context_limit=self.number("context_length", 0) or None,
            matrices=tuple(
                Matrix(role, rows, columns, stored, used, kind)
                for (role, rows, columns, kind), (stored, used) in self.matrices.items()
            ),
            attention=attention,
            recurrent=recurrent,
            expert_layers=sum("ffn_gate_inp" in names for layer, names in self.by_layer.items() if layer < self.layers),
            vectors=self.vectors,
            vector_parameters=self.vector_parameters,
            quantisation=FILE_TYPES.get(file_type, "") if type(file_type) is int else "",
            file_bytes=round(self.file_bytes),
            notes=tuple(self.notes),
        )

    def _attention(self, facts: Mapping[str, Any]) -> tuple[AttentionLayers, ...]:
        """Return the layers with attention, equal ones together."""
        with_attention = [layer for layer in range(self.layers) if "attn_output" in self.by_layer[layer]]
        if not with_attention:
            return ()
        heads = self.number("attention.head_count", least=1)
        if rank := self.number("attention.kv_lora_rank", 0):
            return (AttentionLayers(len(with_attention), heads, 1, rank + self.number("rope.dimension_count"), 0),)
        size = self.number("attention.key_length", max(1, self.hidden // heads), least=1)
        sizes = {"key": size, "value": self.number("attention.value_length", size, least=1)}
        window = self.number("attention.sliding_window", 0) or None
        every, stated = facts.get("full_attention_every", 1 if facts else 0), self.value("attention.sliding_window_pattern")
        groups, sharing = self.value("attention.head_count_kv"), self.number("attention.shared_kv_layers", 0)
        queries = self.value("attention.head_count")
        found: dict[tuple[int, int, int, int, int | None], list[int]] = defaultdict(lambda: [0, 0])
        for layer in with_attention:
            if isinstance(stated, list) and layer < len(stated):
                slides = bool(stated[layer])
            else:
                period = stated if type(stated) is int else every
                slides = period > 1 and layer % period != period - 1 and "mixer_between" not in facts
            slides = slides and window is not None
            asking, group = (
                each[layer] if isinstance(each, list) and layer < len(each) else each
                for each in (queries if isinstance(queries, list) else heads, groups)
            )
            if group is None:
                group = asking
            if type(asking) is not int or type(group) is not int or not 0 < group <= asking or asking % group:
                numbers = f"{str(group)[:60]} key and value heads of {str(asking)[:60]}"
                raise ModelError(f"{self.name}: found {numbers}, expected a divisor")
            key, value = (self.number(f"attention.{part}_length_swa", own) if slides else own for part, own in sizes.items())
            counted = found[asking, group, key, value, window if slides else None]
            counted[0] += 1
            counted[1] += layer < self.layers - sharing
        rows = {rows for role, rows, _, _ in self.matrices if role == "key"}
        if not rows <= {group * key for _, group, key, _, _ in found}:
            self._note("the numbers of heads disagree with the keys' tensors: the cache is counted by the numbers")
        return tuple(
            AttentionLayers(layers, asking, group, key, value, seen, owning if owning != layers else None)
            for (asking, group, key, value, seen), (layers, owning) in found.items()
        )

    def _recurrent(self) -> tuple[RecurrentLayers, ...]:
        """Return the layers with a state, equal ones together."""
        counts: dict[Any, int] = defaultdict(int)
        for layer, names in self.by_layer.items():
            if layer >= self.layers:
                continue
            if "shortconv.in_proj" in names:
                counts["short_convolution"] += 1
            elif any(name.startswith("time_mix_") for name in names):
                counts["rwkv"] += 1
            elif "ssm_out" in names:
                linear = names & {"ssm_ba", "ssm_beta", "ssm_alpha"}
                counts["gated_delta" if linear else "mamba" if "ssm_x" in names else "mamba2"] += 1
        sizes = {
            "short_convolution": lambda: self.hidden * self.number("shortconv.l_cache"),
            "rwkv": lambda: self.hidden * self.number("wkv.head_size"),
        }
        return tuple(
            RecurrentLayers(
                kind, layers, sizes.get(kind, lambda: self.number("ssm.inner_size") * self.number("ssm.state_size"))()
            )
            for kind, layers in counts.items()
        )


def _type_and_bytes(tensor: _Tensor, following: int | None) -> tuple[str, float]:
    """Return the name of a tensor's type and its bytes; of an unknown type both follow from where the next tensor begins."""
    weights = prod(tensor.dimensions)
    if found := GGML_TYPES.get(tensor.type_number):
        name, block, size = found
        return name, weights * size / block
    size = following - tensor.offset if following else weights
    bits = min(32.0, max(1.0, round(8 * size / weights, 2)))
    return f"bits{bits:g}", weights * bits / 8
