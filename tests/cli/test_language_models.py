"""Language models on the command line: tables, JSON, and refusals of one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latcast.cli import main
from latcast.cli.model_kinds import OF_LANGUAGE_MODELS, OF_NETWORKS
from latcast.llm.learned_prices import known_prices, save_added
from tests.cli.conftest import Latcast
from tests.llm.gguf_files import real_header


def test_predict_shows_both_phases_the_first_token_and_the_memory(latcast: Latcast) -> None:
    found = latcast("predict", "qwen2.5-1.5b:q4_0", "--on", "snapdragon 8 gen 2 cpu")

    head, row = found.out.splitlines()[:2]
    assert head.split()[:8] == ["model", "platform", "prefill", "tok/s", "decode", "tok/s", "first", "token"]
    assert row.startswith("qwen2.5-1.5b:q4_0")


def test_json_has_both_phases_with_their_intervals_beside_a_network_s_latency(latcast: Latcast) -> None:
    given = ("--on", "galaxy s23", "--prompt", 256, "--generate", 64, "--json")

    predictions = latcast("predict", "qwen2.5-1.5b:q4_0", "resnet18", *given).json["predictions"]

    networks = [each for each in predictions if "latency_ms" in each]
    spoken = [each for each in predictions if "decode_tokens_per_s" in each]
    assert networks
    for each in spoken:
        assert each["prefill_low_tokens_per_s"] < each["prefill_tokens_per_s"] < each["prefill_high_tokens_per_s"]
        assert each["first_token_ms"] == pytest.approx(1000 * 256 / each["prefill_tokens_per_s"])
        assert each["grade"]["word"] in ("good", "fair", "rough")


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("llama3.2:3b", "llama3.2:3b:q4_k_m"),
        ("Qwen/Qwen2.5-1.5B-Instruct-GGUF", "Qwen/Qwen2.5-1.5B-Instruct-GGUF:q4_k_m"),
        ("tinyllama", "tinyllama:q4_k_m"),
        ("gpt-oss:20b", "gpt-oss:20b:mxfp4"),
        ("llama3.2:1b-instruct-q8_0", "llama3.2:1b-instruct-q8_0"),
    ],
)
def test_a_name_without_a_quantisation_is_answered_in_the_usual_one_which_the_answer_states(
    latcast: Latcast, name: str, taken: str
) -> None:
    named, stated = (latcast("predict", each, "--on", "galaxy s23 cpu", "--json").json["predictions"] for each in (name, taken))
    assert [each["model"] for each in named] == [taken]
    assert named == stated


@pytest.mark.parametrize(
    "models", [("nosuch.gguf", "resnet18"), ("qwen2.5-1.5b:q4_0", "nosuch.onnx"), ("nosuch.gguf", "qwen2.5-1.5b:q4_0")]
)
def test_of_networks_and_language_models_those_that_fail_are_said_and_the_others_predicted(
    latcast: Latcast, models: tuple[str, str]
) -> None:
    found = latcast("predict", *models, "--on", "galaxy s23 cpu", "--json")

    assert found.code == 1
    assert [each["model"] for each in found.json["predictions"]] == [each for each in models if not each.startswith("nosuch")]
    assert "nosuch" in found.err


def test_a_name_without_a_quantisation_keeps_to_the_one_that_is_given_apart(latcast: Latcast) -> None:
    (found,) = latcast("predict", "llama3.2:1b", "--quant", "q8_0", "--on", "galaxy s23 cpu", "--json").json["predictions"]
    (stated,) = latcast("predict", "llama3.2:1b:q8_0", "--on", "galaxy s23 cpu", "--json").json["predictions"]
    assert found["decode_tokens_per_s"] == stated["decode_tokens_per_s"]


def test_compare_explain_check_and_sweep_state_the_quantisation_that_they_took(latcast: Latcast) -> None:
    on = ("--on", "galaxy s23 cpu")
    assert "A: llama3.2:1b:q4_k_m" in latcast("compare", "llama3.2:1b", "llama3.2:3b:q4_0", *on).out
    assert "llama3.2:1b:q4_k_m" in latcast("explain", "llama3.2:1b", *on).out
    assert "llama3.2:1b:q4_k_m" in latcast("check", "llama3.2:1b", "--min-decode", 1, *on).out
    assert "llama3.2:1b:q4_k_m" in latcast("sweep", "llama3.2:1b", "--context", "128,256", *on).out


def test_a_family_s_name_is_refused_with_its_members(latcast: Latcast) -> None:
    assert "gemma-3n-e2b, gemma-3n-e4b" in latcast("predict", "gemma3n", "--on", "galaxy s23").reason


def test_check_says_that_a_model_does_not_fit_in_the_memory_that_is_stated(latcast: Latcast) -> None:
    fits, tight = (
        latcast("check", "llama-3.1-8b:q4_k_m", "--on", f"macbook air m2 {size}gb gpu", "--min-decode", 3) for size in (16, 8)
    )
    assert (fits.code, tight.code) == (0, 3)
    assert "8 GB" in tight.err
    assert "8 GB" not in fits.err


def test_check_fails_with_code_3_where_a_model_is_likelier_too_slow_than_not(latcast: Latcast) -> None:
    on = ("--on", "galaxy s23 cpu")
    speed = latcast("predict", "qwen2.5-1.5b:q4_0", *on, "--json").json["predictions"][0]["decode_tokens_per_s"]

    kept = latcast("check", "qwen2.5-1.5b:q4_0", "--min-decode", 0.9 * speed, *on, "--json")
    missed = latcast("check", "qwen2.5-1.5b:q4_0", "--min-decode", 1.1 * speed, *on, "--json")

    assert (kept.code, missed.code) == (0, 3)
    assert 0.5 < kept.json["checks"][0]["probability"] < 1
    assert 0 < missed.json["checks"][0]["probability"] < 0.5


def test_choose_picks_the_largest_that_surely_fits(latcast: Latcast) -> None:
    found = latcast(
        "choose", "--llm", "--on", "galaxy s23 cpu", "--min-decode", 10, "--max-memory", "3GB", "--all", "--json"
    ).json

    fitting = [each for each in found["models"] if each["fits"]]
    assert found["pick"] == fitting[0]["model"]
    assert all(each["memory_mb"] <= 3000 and each["probability"] >= 0.9 for each in fitting)
    assert fitting[0]["expected_score"] == max(each["expected_score"] for each in fitting if each["bits"] >= 4)
    assert not any(each["fits"] for each in found["models"][len(fitting) :])


def test_where_none_fits_those_that_miss_least_come_first(latcast: Latcast) -> None:
    found = latcast("choose", "--llm", "--on", "galaxy s23 cpu", "--min-decode", 100_000, "--json").json["models"]
    speeds = [each["decode_tokens_per_s"] for each in found]
    assert not any(each["fits"] for each in found)
    assert speeds == sorted(speeds, reverse=True)


def test_a_mixture_of_experts_ranks_by_the_parameters_that_a_token_meets(latcast: Latcast) -> None:
    """Granite 3.1 1B-A400M has 1.33 billion parameters of which a token meets 0.43; SmolLM2 360M has fewer, all of them met."""
    given = ("granite-3.1-1b-a400m:q8_0", "tinyllama-1.1b:q8_0", "smollm2-360m:q8_0")

    models = latcast("choose", *given, "--llm", "--on", "galaxy s23 cpu", "--min-decode", 1, "--json").json["models"]

    assert [each["model"] for each in models] == [given[1], given[0], given[2]]
    assert models[1]["parameters"] == pytest.approx(1.33e9, rel=0.01)
    assert models[1]["active_parameters"] == pytest.approx(0.43e9, rel=0.01)


def test_choose_without_a_limit_of_memory_says_that_the_device_may_not_hold_the_pick(latcast: Latcast) -> None:
    found = latcast("choose", "phi-4-mini:q4_0", "--llm", "--on", "galaxy s23 cpu", "--min-decode", 1)

    assert "--max-memory" in found.err


def test_choose_tries_all_models_on_a_device_of_a_file(latcast: Latcast, tmp_path: Path) -> None:
    known, platform = known_prices(), "board/llama.cpp-0.12/cpu6/unstated"
    machine = replace(known.machines["galaxy-s23/llama.cpp-0.12/cpu6/unstated"], platform=platform)
    file = save_added(known.with_machine(machine), platform, tmp_path / "board.json")

    found = latcast("choose", "--llm", "--on", file, "--min-decode", 10, "--json").json

    assert found["models"][0]["platform"] == platform


def test_a_longer_prompt_slows_the_answer_and_the_lengths_of_a_sweep_double(latcast: Latcast) -> None:
    swept = latcast("sweep", "tinyllama-1.1b:q4_0", "--on", "galaxy s23 cpu", "--context", "1024..4096", "--json")
    assert [each["prompt_tokens"] for each in swept.json["sweeps"]] == [1024]
    assert "left out prompts of 2048, 4096" in swept.err
    points = latcast("sweep", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23 cpu", "--context", "512..4096", "--json").json["sweeps"]

    assert [each["prompt_tokens"] for each in points] == [512, 1024, 2048, 4096]
    speeds = [each["decode_tokens_per_s"] for each in points]
    assert speeds == sorted(speeds, reverse=True)


def test_compare_says_how_many_times_as_fast_b_is(latcast: Latcast) -> None:
    pair = latcast("compare", "qwen2.5-1.5b:q8_0", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23 cpu", "--json").json["pairs"][0]

    assert pair["decode_times"] == pytest.approx(pair["b"]["decode_tokens_per_s"] / pair["a"]["decode_tokens_per_s"])
    assert pair["decode_times"] > 1  # nearly half of the bytes
    assert pair["memory_mb"] < 0


def test_a_report_has_the_speeds_and_the_costs_of_each_platform(latcast: Latcast, tmp_path: Path) -> None:
    file = tmp_path / "report.html"

    found = latcast("report", "qwen2.5-1.5b:q4_k_m", "--on", "galaxy s23", "-o", file, "--json").json

    html = file.read_text(encoding="utf-8")
    assert len(found["explanations"]) == 3
    for each in found["explanations"]:
        assert each["platform"] in html
        assert all(cost["text"] in html for phase in ("prefill", "decode") for cost in each["costs"][phase])
        assert all(other["model"] in html for other in each["alternatives"])


def test_explain_divides_both_phases_into_parts_with_the_output_head_apart(latcast: Latcast) -> None:
    found = latcast("explain", "qwen2.5-1.5b:q4_k_m", "--on", "galaxy s23 cpu", "--json").json["explanations"][0]

    for phase, tokens in (("prefill", 512), ("decode", 1)):
        costs = found["costs"][phase]
        assert sum(cost["ms"] for cost in costs) == pytest.approx(1e3 * tokens / found[f"{phase}_tokens_per_s"])
        assert sum(found["limits"][phase].values()) == pytest.approx(sum(cost["ms"] for cost in costs))
        assert any("output head" in cost["text"] for cost in costs)
    by_text = {cost["text"]: cost["ms"] for cost in found["costs"]["decode"]}
    # A tied head of 151,936 x 1,536 weights is more than the rest of the weights of its type, of half of two matrices a layer.
    assert by_text["output head of type q6_k"] > by_text["reading weights of type q6_k"]
    assert next(iter(found["limits"]["prefill"])) == "arithmetic"


def test_explain_predicts_a_file_in_other_quantisations_as_it_does_the_named_model(latcast: Latcast, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(real_header("gemma-3-1b"))

    given = ("--on", "galaxy s23 cpu", "--json")
    of_file, of_name = (
        latcast("explain", model, *given).json["explanations"][0]["alternatives"] for model in (file, "gemma-3-1b:q4_1")
    )

    assert {"q8_0", "q6_k", "q4_k_m", "q4_0"} <= {each["model"] for each in of_file}
    named = {each["model"]: each for each in of_name}
    for each in of_file:
        assert each["decode_tokens_per_s"] == pytest.approx(named[each["model"]]["decode_tokens_per_s"], rel=0.01)


def test_a_command_for_networks_alone_refuses_a_language_model_and_names_explain(latcast: Latcast) -> None:
    assert "latcast explain" in latcast("advise", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23").reason


def test_a_platform_must_be_named(latcast: Latcast) -> None:
    assert "names no platform" in latcast("predict", "qwen2.5-1.5b:q4_0", "--on", "").reason


def test_models_lists_language_models_with_their_published_sizes(latcast: Latcast) -> None:
    found = latcast("models", "--llm", "qwen2.5-1.5b", "--json").json

    assert [each["name"] for each in found] == ["qwen2.5-1.5b"]
    assert found[0]["parameters"] == pytest.approx(found[0]["published"], rel=0.02)
    assert found[0]["source"] == "Qwen/Qwen2.5-1.5B"
    assert latcast("models", "qwen2.5-1.5b", "--json").json == found


def test_platforms_lists_those_of_language_models_with_their_error(latcast: Latcast) -> None:
    found = latcast("platforms", "--llm", "galaxy s23 npu", "--json").json

    assert [each["id"].split("/")[2] for each in found] == ["npu+hexagon"]
    assert found[0]["pairs"] > 0
    assert 0 < found[0]["decode_mape"] < 100
    assert "no platform of language models" in latcast("platforms", "--llm", "nonesuch").reason


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sweep", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23", "--context", "a lot"), "is no range of tokens"),
        (("choose", "--llm", "--on", "galaxy s23", "--max-ttft", "2"), "--max-ttft"),
        (("choose", "--llm", "--on", "galaxy s23", "--max-memory", "3 apples"), "--max-memory"),
        (("check", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23"), "--min-decode"),
        (("check", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23", "--min-decode", "nan"), "found nan, expected a finite number"),
        (("choose", "--llm", "--on", "galaxy s23"), "found no limit"),
        (("sweep", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23", "--context", "512..256"), "is no range of tokens"),
        (("sweep", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23", "--context", "1..9000..1"), "more than 1000 lengths"),
        (("sweep", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23", "--shape", "input=1,3,{64..128..32},="), "take --shape"),
        (("sweep", "resnet18", "--on", "galaxy s23", "--context", "512"), "only language models take --context"),
        (("predict", "resnet18", "--on", "galaxy s23", "--quant", "q4_0"), "'resnet18' is a network; leave it out"),
        (("predict", "nonesuch", "--on", "galaxy s23", "--quant", "q4_0"), "'nonesuch' is none, of which there are"),
        (("predict", "timm/tiny_vit_5m_224", "--on", "galaxy s23", "--generate", "128"), "'timm/tiny_vit_5m_224' is a network"),
        (("compare", "qwen2.5-1.5b:q4_0", "resnet18", "--on", "galaxy s23"), "expected another one"),
        (("compare", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23"), "expected another one"),
        (
            ("predict", "qwen2.5-1.5b:q4_0", "qwen2.5-1.5b:q8_0", "--on", "s23", "--top", "0", "--by", "type", "--start"),
            "only networks take --top, --by, --start, and 'qwen2.5-1.5b:q4_0' is a language model; leave them out",
        ),
        (("explain", "qwen2.5-1.5b:q4_0", "--on", "s23", "--plot", "found.png"), "take --plot"),
        (("compare", "qwen2.5-1.5b:q4_0", "qwen2.5-1.5b:q8_0", "--on", "s23", "--breakdown"), "take --breakdown"),
        (("report", "qwen2.5-1.5b:q4_0", "--on", "s23", "--overlay", "found.onnx", "-o", "a.html"), "take --overlay, and"),
        (
            ("measure", "qwen2.5-1.5b:q4_0", "-t", "2", "--device", "ssh://pi@board", "--no-realtime"),
            "take --realtime, --device,",
        ),
        (("sweep", "qwen2.5-1.5b:q4_0", "--on", "s23", "--strict"), "take --strict"),
        (("choose", "--llm", "--on", "s23", "--min-decode", "5", "--max-ms", "9"), "take --max-ms, and none was given"),
        (("choose", "--on", "s23", "--min-decode", "5"), "only language models take --min-decode"),
        (("compare", "qwen2.5-1.5b:q4_0", "qwen2.5-1.5b:q8_0", "--on", "s23", "--beside", "all"), "is a language model"),
        (("check", "qwen2.5-1.5b:q4_0", "--on", "s23", "--min-decode", "5", "--start"), "is a language model"),
        (("check", "qwen2.5-1.5b:q4_0", "--on", "s23", "--min-decode", "5", "--format", "junit"), "take --format, and"),
        (
            ("check", "qwen2.5-1.5b:q4_0", "--on", "s23", "--min-decode", "5", "-o", "found.xml", "--max-ms", "9"),
            "take --max-ms, --output",
        ),
        (("check", "resnet18", "--on", "galaxy s23", "--max-ms", "9", "--max-memory", "3GB"), "'resnet18' is a network"),
        (("report", "qwen2.5-1.5b:q4_0", "--on", "s23", "--sustain", "9m", "--fps", "30"), "is a language model"),
        (("measure", "qwen2.5-1.5b:q4_0", "--sustain", "10m"), "is a language model"),
    ],
)
def test_a_wrong_call_is_a_usage_error(latcast: Latcast, arguments: tuple[str, ...], said: str) -> None:
    found = latcast(*arguments)

    assert found.code == 2
    assert said in found.err


def test_in_a_list_of_both_each_kind_takes_its_own_options(latcast: Latcast) -> None:
    given = ("--on", "galaxy s23 cpu", "--prompt", 64, "--top", 1, "--sustain", "30m", "--json")

    network, spoken = latcast("predict", "qwen2.5-1.5b:q4_0", "resnet18", *given).json["predictions"]

    assert (len(network["top"]), network["sustained"]["minutes"]) == (1, 30)
    assert spoken["prompt_tokens"] == 64


def test_every_option_is_of_networks_of_language_models_or_known_to_be_of_both() -> None:
    group = main._main()
    context = group.make_context("latcast", [], resilient_parsing=True)
    commands = ("predict", "compare", "explain", "report", "measure", "sweep", "choose", "check")
    found = {option.opts[0] for name in commands for option in group.get_command(context, name).params}

    of_both = {"models", "model", "a", "b", "--on", "--json", "--threads", "--llm", "--certainty", "--all"}
    assert found - of_both == OF_NETWORKS | OF_LANGUAGE_MODELS
    assert OF_NETWORKS.isdisjoint(OF_LANGUAGE_MODELS)


@pytest.mark.parametrize(("models", "decided", "said"), [
    (["llama-3.2-1b:q4_0", "smollm2-1.7b:q4_0"], "active parameters", "decided by its active parameters: no score"),
    (["llama-3.2-1b:q4_0", "lfm2-1.2b:q4_0", "smollm2-360m:q8_0"], "MMLU", "decided by its score: MMLU 55 % (LiquidAI"),
])  # fmt: skip
def test_a_choice_says_whether_a_score_or_the_parameters_decided(
    latcast: Latcast, models: list[str], decided: str, said: str
) -> None:
    given = ("choose", *models, "--llm", "--on", "galaxy s23 cpu", "--min-decode", "5")
    assert said in latcast(*given).out
    found = latcast(*given, "--json").json
    assert found["decided_by"] == decided
    assert found["pick"] == found["models"][0]["model"]
