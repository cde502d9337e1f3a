from __future__ import annotations

import pytest

from latcast.errors import ModelError
from latcast.llm.decoder import LanguageModel
from latcast.llm.reading import read_language_model
from latcast.llm.tensor_types import bits_of, bytes_of, quantisations, recipe_named


def mib(model: LanguageModel) -> float:
    return (sum(bytes_of(matrix, matrix.stored) for matrix in model.matrices) + 4 * model.vector_parameters) / 2**20


@pytest.mark.parametrize(
    ("name", "quantisation", "published_mib"),
    [
        ("llama-2-7b", "q4_0", 3647.9), ("llama-2-7b", "q4_k_m", 3891.2), ("llama-3.1-8b", "q4_k_m", 4685.3),
        ("llama-3.1-70b", "q4_k_m", 40543.1), ("phi-3.5-mini", "q2_k", 1349.9), ("phi-3.5-mini", "q4_k_m", 2281.7),
        ("phi-3.5-mini", "iq2_m", 1254.7), ("deepseek-r1-distill-qwen-1.5b", "q2_k", 712.3),
        ("deepseek-r1-distill-qwen-1.5b", "q6_k", 1390.7), ("qwen3-32b", "q8_0", 33199.1), ("ministral-3-8b", "q4_k_m", 4945.9),
        ("gpt-oss-20b", "mxfp4", 11540.5), ("gpt-oss-120b", "f16", 62328.3), ("qwen3.5-9b", "iq3_s-3.00bpw", 3205.1),
    ],
)  # fmt: skip
def test_sizes_of_files_are_the_published_ones(name: str, quantisation: str, published_mib: float) -> None:
    assert mib(read_language_model(name, quantisation)) == pytest.approx(published_mib, rel=0.02)


def test_rows_that_no_block_fits_have_another_type() -> None:
    types = {matrix.role: matrix.tensor_type for matrix in read_language_model("qwen2.5-0.5b", "q4_k_s").matrices}
    assert types["query"] == "q5_0"  # rows of 896
    assert types["output"] == "q8_0"
    assert {matrix.tensor_type for matrix in read_language_model("falcon-7b", "q6_k").matrices if matrix.role == "up"} == {"q8_0"}


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("Q4_K - Medium", "q4_k_m"), ("Q4_K_M", "q4_k_m"), ("UD-Q4_K_XL", "q4_k_xl"), ("IQ2_XS - 2.3125 bpw", "iq2_xs"),
        ("IQ3_S-2.81bpw", "iq3_s-2.81bpw"), ("INT4-MIXED", "int4"), ("fp16", "f16"), ("4bit", "mlx-4bit"),
        ("w4a16_g128", "w4a16_g128"),
    ],
)  # fmt: skip
def test_recipes_may_be_spelled_in_many_ways(spelled: str, name: str) -> None:
    assert recipe_named(spelled) == name
    assert recipe_named(name) == name


def test_an_unknown_quantisation_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        ModelError, match=r"'q4_x_m' is not a quantisation that is known; nearest: .*q4_k_m.*; expected one of llama.cpp"
    ):
        read_language_model("qwen3-4b:q4_x_m")
    with pytest.raises(ModelError, match="found 9 bits a weight of q4_k"):
        read_language_model("qwen3-4b:q4_k_m-9bpw")


def test_recipes_change_no_number_of_weights() -> None:
    model = read_language_model("gpt-oss-20b")
    for quantisation in quantisations():
        typed = read_language_model("gpt-oss-20b", quantisation)
        assert typed.parameters == pytest.approx(model.parameters)
        assert all(bits_of(matrix.tensor_type) > 0 for matrix in typed.matrices)


def test_what_a_recipe_does_not_publish_is_noted() -> None:
    assert "not published" in read_language_model("qwen3-4b:ud-q4_k_xl").notes[0]
    assert read_language_model("qwen3-4b:q4_k_m").notes == ()
