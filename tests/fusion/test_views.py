"""Which operators cost nothing."""

from __future__ import annotations

import pytest

from latcast.fusion.quantities import LATENCY
from latcast.fusion.surroundings import choose_surroundings
from latcast.fusion.views import find_views
from latcast.kernels import FusionRules
from tests.fusion.made_up_runtime import MadeUpStopwatch

ALL = frozenset({"reshape", "flatten", "squeeze", "unsqueeze", "identity", "dropout"})


def answers(rules: FusionRules, noise: float = 0.01) -> dict[str, bool | None]:
    stopwatch = MadeUpStopwatch(rules, noise=noise)
    surroundings, _ = choose_surroundings(stopwatch, ("relu", "sigmoid"))
    return {name: found.free for name, found in find_views(stopwatch, surroundings).items()}


def test_views_that_the_runtime_does_not_execute_are_free() -> None:
    assert answers(FusionRules("made-up", free=ALL)) == dict.fromkeys(
        ("reshape", "flatten", "squeeze", "identity", "dropout"), True
    )


def test_views_that_copy_are_not() -> None:
    free = ALL - {"reshape", "identity"}

    found = answers(FusionRules("made-up", free=free))

    # Flattening and back takes a reshape, so it is as dear as one.
    assert (found["reshape"], found["identity"], found["dropout"], found["squeeze"]) == (False, False, True, True)
    assert found["flatten"] is False


def test_a_view_hidden_by_noise_is_undecided() -> None:
    assert None in answers(FusionRules("made-up", free=ALL), noise=1.2).values()


def test_evidence_has_the_cost_of_the_view_and_of_one_pass() -> None:
    stopwatch = MadeUpStopwatch(FusionRules("made-up", free=frozenset({"identity"})), noise=0.01)
    surroundings, _ = choose_surroundings(stopwatch, ("relu",))

    found = find_views(stopwatch, surroundings)

    # 16 x 64 x 64 elements at 0.2 ns each and a start of 1 µs.
    assert found["identity"].to_json(LATENCY)["touch_us"] == pytest.approx(14.1, rel=0.1)
    assert found["identity"].to_json(LATENCY)["own_us"] == pytest.approx(0.0, abs=0.5)
    assert found["reshape"].to_json(LATENCY)["own_us"] == pytest.approx(14.1, rel=0.1)
    assert found["squeeze"].operators == ("squeeze", "unsqueeze")
