"""GGUF files written byte by byte, as llama.cpp's converter writes them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from latcast.llm.tensor_types import GGML_TYPES

NUMBERS = {name: number for number, (name, _, _) in GGML_TYPES.items()}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    items = b"".join(typed(each)[4:] for each in value)
    return struct.pack("<I", 9) + typed(value[0])[:4] + struct.pack("<Q", len(value)) + items


def gguf(values: Mapping[str, Any], tensors: Sequence[tuple[str, tuple[int, ...], str | int]], version: int = 3) -> bytes:
    """Return a file without the weights, which nothing reads."""
    parts, offset = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(values))], 0
    for key, value in values.items():
        parts += (text(key), typed(value))
    for name, dimensions, kind in tensors:
        number = NUMBERS[kind] if isinstance(kind, str) else kind
        parts += (text(name), struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, number, offset))
        weights = 1
        for size in dimensions:
            weights *= size
        _, block, size = GGML_TYPES.get(number, ("", 8, 5))
        offset += weights * size // block
    return b"".join(parts)


def llama(layers: int = 2, kind: str | int = "q4_0", tied: bool = True, tokens: int = 3, **more: Any) -> bytes:
    """Return a llama of 64 numbers a token, four heads and two pairs of key and value."""
    values = {
        "general.architecture": "llama", "general.file_type": 2, "llama.block_count": layers, "llama.context_length": 128,
        "llama.embedding_length": 64, "llama.feed_forward_length": 96, "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2, "tokenizer.ggml.tokens": [f"t{i}" for i in range(tokens)],
        "tokenizer.chat_template": "x" * 100, **more,
    }  # fmt: skip
    tensors: list[tuple[str, tuple[int, ...], str | int]] = [
        ("token_embd.weight", (64, 100), "q6_k" if kind == "q4_k" else "q8_0")
    ]
    for layer in range(layers):
        sizes = {"attn_q": (64, 64), "attn_k": (64, 32), "attn_v": (64, 32), "attn_output": (64, 64), "ffn_gate": (64, 96),
                 "ffn_up": (64, 96), "ffn_down": (96, 64)}  # fmt: skip
        tensors.append((f"blk.{layer}.attn_norm.weight", (64,), "f32"))
        tensors += ((f"blk.{layer}.{name}.weight", size, kind) for name, size in sizes.items())
        tensors.append((f"blk.{layer}.ffn_norm.weight", (64,), "f32"))
    tensors.append(("output_norm.weight", (64,), "f32"))
    if not tied:
        tensors.append(("output.weight", (64, 100), "q8_0"))
    return gguf(values, tensors)


def real_header(name: str) -> bytes:
    """Return the header that llama.cpp's converter writes for a model of headers.json, all matrices of Q8_0."""
    facts = json.loads((Path(__file__).parent / "headers.json").read_text())
    architecture, hidden = facts[name]["architecture"], facts[name]["values"]["embedding_length"]
    unquantised = (*facts[name]["norms"], "ffn_gate_inp", "ssm_beta", "ssm_alpha", "ssm_conv1d")
    tables = ("token_embd",) if facts[name]["tied"] else ("token_embd", "output")
    tensors = [(f"{table}.weight", (hidden, facts[name]["vocabulary"]), "q8_0") for table in tables]
    for number, parts in enumerate(facts[name]["layers"]):
        sizes = dict.fromkeys(facts[name]["norms"], (hidden,))
        for part in parts:
            sizes |= facts[name]["parts"][part]
        tensors += ((f"blk.{number}.{key}.weight", size, "f32" if key in unquantised else "q8_0") for key, size in sizes.items())
    values = {f"{architecture}.{key}": value for key, value in facts[name]["values"].items()}
    return gguf({"general.architecture": architecture, **values}, tensors)
