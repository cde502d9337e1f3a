"""Language models on this machine are judged by the time that they take."""

from __future__ import annotations

import pytest

from benchmarks.language_models_here import here_table, judged


def speeds(prefill: float, decode: float) -> dict[str, float]:
    found = {"prefill_tokens_per_s": prefill, "decode_tokens_per_s": decode}
    return found | {f"{phase}_{end}_tokens_per_s": value * factor for phase, value in (("prefill", prefill), ("decode", decode))
                    for end, factor in (("low", 0.9), ("high", 1.1))}  # fmt: skip


def test_an_error_is_that_of_the_time_and_an_interval_holds_or_not() -> None:
    # Predicted 100 tokens a second, measured 125: the forecast takes 1.25 times as long as the truth.
    row = judged({"model": "m", **speeds(100.0, 10.0)}, {"prefill_tokens_per_s": 125.0, "decode_tokens_per_s": 10.5})

    assert row["prefill_error"] == pytest.approx(25.0)
    assert row["decode_error"] == pytest.approx(5.0)
    assert (row["prefill_inside"], row["decode_inside"]) == (False, True)


def test_the_table_says_the_mean_the_worst_and_whether_targets_are_met() -> None:
    models = [judged({"model": "m", **speeds(100.0, 10.0)}, {"prefill_tokens_per_s": speed, "decode_tokens_per_s": 10.0})
              for speed in (90.0, 104.0)]  # fmt: skip

    found = {"platform": "p", "machine": "this one", "stacks": 9, "spread": 1.0, "models": models}
    line = here_table({"x": found}).splitlines()[2]

    assert line == "| p | this one | 9 | 1.0 | 7.0 (-10.0) | 2 of 2 | 6.0, missed | 0.0 (+0.0) | 2 of 2 | 5.0, met |"
