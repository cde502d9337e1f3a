"""GGUF files written byte by byte, as llama.cpp's converter writes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
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
    """Return the header that llama.cpp's converter writes for a published model, all matrices of Q8_0."""
    if name == "gemma-3-1b":
        values: dict[str, Any] = {
            "block_count": 26, "embedding_length": 1152, "attention.head_count": 4, "attention.head_count_kv": 1,
            "context_length": 32768, "attention.key_length": 256, "attention.value_length": 256, "attention.sliding_window": 512,
        }  # fmt: skip
        architecture, vocabulary = "gemma3", 262144
        norms = ["attn_norm", "attn_q_norm", "attn_k_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"]
        layer = {"attn_q": (1152, 1024), "attn_k": (1152, 256), "attn_v": (1152, 256), "attn_output": (1024, 1152),
                 "ffn_gate": (1152, 6912), "ffn_up": (1152, 6912), "ffn_down": (6912, 1152)}  # fmt: skip
        layers = [layer] * 26
    elif name == "deepseek-v2-lite":
        values = {
            "block_count": 27, "embedding_length": 2048, "attention.head_count": 16, "attention.head_count_kv": 1,
            "context_length": 163840, "attention.kv_lora_rank": 512, "rope.dimension_count": 64, "expert_count": 64,
            "expert_used_count": 6, "attention.key_length": 576, "attention.value_length": 512,
        }  # fmt: skip
        architecture, vocabulary = "deepseek2", 102400
        norms = ["attn_norm", "attn_kv_a_norm", "ffn_norm"]
        attention = {"attn_q": (2048, 3072), "attn_kv_a_mqa": (2048, 576), "attn_k_b": (128, 512, 16), "attn_v_b": (512, 128, 16),
                     "attn_output": (2048, 2048)}  # fmt: skip
        dense = {"ffn_gate": (2048, 10944), "ffn_up": (2048, 10944), "ffn_down": (10944, 2048)}
        sparse = {"ffn_gate_inp": (2048, 64), "ffn_gate_exps": (2048, 1408, 64), "ffn_up_exps": (2048, 1408, 64),
                  "ffn_down_exps": (1408, 2048, 64), "ffn_gate_shexp": (2048, 2816), "ffn_up_shexp": (2048, 2816),
                  "ffn_down_shexp": (2816, 2048)}  # fmt: skip
        layers = [{**attention, **(sparse if number else dense)} for number in range(27)]
    else:
        values = {
            "block_count": 24, "embedding_length": 1024, "attention.head_count": 8, "attention.head_count_kv": 2,
            "context_length": 262144, "attention.key_length": 256, "attention.value_length": 256, "ssm.inner_size": 2048,
            "ssm.state_size": 128, "full_attention_interval": 4,
        }  # fmt: skip
        architecture, vocabulary = "qwen35", 248320
        norms = ["attn_norm", "post_attention_norm", "ssm_norm", "ssm_a"]
        full = {"attn_q": (1024, 4096), "attn_k": (1024, 512), "attn_v": (1024, 512), "attn_output": (2048, 1024)}
        linear = {"attn_qkv": (1024, 6144), "attn_gate": (1024, 2048), "ssm_beta": (1024, 16), "ssm_alpha": (1024, 16),
                  "ssm_conv1d": (4, 6144), "ssm_out": (2048, 1024)}  # fmt: skip
        mlp = {"ffn_gate": (1024, 3584), "ffn_up": (1024, 3584), "ffn_down": (3584, 1024)}
        layers = [{**(full if number % 4 == 3 else linear), **mlp} for number in range(24)]
    hidden = values["embedding_length"]
    unquantised = (*norms, "ffn_gate_inp", "ssm_beta", "ssm_alpha", "ssm_conv1d")
    tensors: list[tuple[str, tuple[int, ...], str | int]] = [("token_embd.weight", (hidden, vocabulary), "q8_0")]
    if architecture == "deepseek2":
        tensors.append(("output.weight", (hidden, vocabulary), "q8_0"))
    for number, given in enumerate(layers):
        sizes: dict[str, tuple[int, ...]] = {**given, **dict.fromkeys(norms, (hidden,))}
        tensors += ((f"blk.{number}.{key}.weight", size, "f32" if key in unquantised else "q8_0") for key, size in sizes.items())
    keys = {f"{architecture}.{key}": value for key, value in values.items()}
    return gguf({"general.architecture": architecture, **keys}, tensors)
