"""The search itself: what it finds, what it refuses, how it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latcast.errors import LatcastError
from latcast.search.constrained_search import (
    SearchPlan,
    SearchState,
    choice_mutation,
    read_state,
    search,
    search_encodings,
    write_state,
)
from latcast.search.encodings import EncodingPredictor
from latcast.search.objective import CallableObjective, SizeObjective, TableObjective
from latcast.search.result import Evaluated, pareto_front

PLAN = SearchPlan(0.0, False, evaluations=240, population=40, seed=3)


@pytest.fixture
def limit_ms(transformers: EncodingPredictor) -> float:
    """What the faster half of the space meets."""
    return float(np.median(transformers.latencies_ms(transformers.supernet.sample_encodings(200, 0))))


def pool_of(objective: list[float], latency_ms: list[float]) -> Evaluated:
    values = np.array(latency_ms)
    return Evaluated(np.arange(len(values))[:, None], np.array(objective), values, 0.9 * values, 1.1 * values)


def test_the_front_holds_networks_that_no_other_beats_in_both() -> None:
    front = pareto_front(pool_of([1, 3, 2, 3, 5], [1.0, 2.0, 3.0, 2.0, 9.0]))
    assert front.objective.tolist() == [5, 3, 1]
    assert front.latency_ms.tolist() == [9.0, 2.0, 1.0]


def test_of_equal_latencies_the_better_is_kept() -> None:
    assert pareto_front(pool_of([1, 4, 2], [1.0, 1.0, 1.0])).objective.tolist() == [4]


@pytest.mark.parametrize(("columns", "changed"), [(20, 0.1), (3, 0.5)])
def test_a_mutation_changes_two_choices_on_average_and_at_most_half(columns: int, changed: float) -> None:
    """Of four choices a draw is another one three times in four."""
    pytest.importorskip("pymoo")
    from pymoo.core.population import Population
    from pymoo.core.problem import Problem

    choices = np.full(columns, 4)
    before = np.ones((5000, columns), dtype=int)
    problem = Problem(n_var=columns, xl=0, xu=choices - 1)

    after = choice_mutation(choices).do(problem, Population.new(X=before), random_state=np.random.default_rng(0)).get("X")

    assert (after != before).mean() == pytest.approx(0.75 * changed, rel=0.05)
    assert set(np.unique(after)) == {0, 1, 2, 3}


def test_found_networks_are_within_the_limit_and_no_worse_than_random(transformers: EncodingPredictor, limit_ms: float) -> None:
    objective = SizeObjective("macs", transformers)
    plan = SearchPlan(limit_ms, False, evaluations=4000, population=100)
    found = search_encodings(transformers, objective, plan)
    assert (found.front.latency_ms <= limit_ms).all()
    random = transformers.supernet.sample_encodings(4000, 77)
    allowed = random[transformers.latencies_ms(random) <= limit_ms]
    assert found.front.objective[0] >= objective.values(allowed).max()
    assert found.front.objective.tolist() == sorted(found.front.objective.tolist(), reverse=True)
    assert not found.exhaustive


def test_the_same_seed_finds_the_same(transformers: EncodingPredictor, limit_ms: float) -> None:
    objective = SizeObjective("macs", transformers)
    plan = replace(PLAN, max_latency_ms=limit_ms, evaluations=120)
    first, second = (search_encodings(transformers, objective, plan).front.encodings.tolist() for _ in range(2))
    assert first == second


def test_a_confident_search_holds_the_upper_bound_to_the_limit(transformers: EncodingPredictor, limit_ms: float) -> None:
    plan = replace(PLAN, max_latency_ms=limit_ms, confident=True)
    found = search_encodings(transformers, SizeObjective("macs", transformers), plan)
    assert (found.front.high_ms <= limit_ms).all()


def test_a_limit_that_no_network_meets_names_the_fastest_latency(transformers: EncodingPredictor) -> None:
    with pytest.raises(LatcastError, match=r"no network of autoformer within 0.001 ms was found; the fastest of \d+ looked at"):
        search_encodings(transformers, SizeObjective("macs", transformers), replace(PLAN, max_latency_ms=0.001))


def test_a_table_is_looked_at_whole(transformers: EncodingPredictor) -> None:
    members = transformers.supernet.distinct_encodings(30, 5)
    accuracy = np.linspace(0.1, 0.9, 30)
    latency_ms = transformers.latencies_ms(members)
    limit_ms = float(np.median(latency_ms))
    found = search_encodings(transformers, TableObjective("t", members, accuracy), SearchPlan(limit_ms, False))
    assert found.exhaustive
    assert found.evaluations == 30
    assert found.front.objective[0] == accuracy[latency_ms <= limit_ms].max()


class _Interrupted(Exception):
    pass


def test_an_interrupted_search_goes_on_without_asking_again(
    transformers: EncodingPredictor, limit_ms: float, tmp_path: Path
) -> None:
    path = tmp_path / "state.json"
    plan = replace(PLAN, max_latency_ms=limit_ms)
    asked: list[object] = []

    def accuracy(parameters: object) -> float:
        asked.append(parameters)
        return float(parameters["depth"])  # type: ignore[index]

    def interrupt(share: float) -> None:
        if share >= 0.5:
            raise _Interrupted

    with pytest.raises(_Interrupted):
        search_encodings(
            transformers, CallableObjective("f", accuracy, transformers.supernet), plan, state_path=path, watch=interrupt
        )
    before = len(asked)
    assert path.is_file()
    shares: list[float] = []
    objective = CallableObjective("f", accuracy, transformers.supernet)
    found = search_encodings(transformers, objective, plan, state_path=path, watch=shares.append)
    assert shares[0] > 0.5
    assert len(asked) == len(objective.known)  # none twice
    assert before < len(asked)
    assert found.front.objective[0] == 14
    assert not path.exists()


def test_the_state_of_another_search_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_state(path, SearchState({"space": "a"}, 3, [[1]], [[1]], [([1], 0.5)]))
    found = read_state(path, {"space": "a"})
    assert found is not None
    assert found.known == [([1], 0.5)]
    with pytest.raises(LatcastError, match="the state of another search"):
        read_state(path, {"space": "b"})


@pytest.mark.parametrize("text", ["", "[]", '{"settings": {}}'])
def test_a_damaged_state_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(LatcastError, match="not the state of a search"):
        read_state(path, {})


def test_a_search_by_names_is_that_of_encodings_and_gives_networks(transformers: EncodingPredictor, limit_ms: float) -> None:
    plan = replace(PLAN, max_latency_ms=limit_ms)

    found = search(
        "autoformer", transformers.predictor, max_latency_ms=limit_ms, confident=False, evaluations=240, population=40, seed=3
    )

    expected = search_encodings(transformers, SizeObjective("macs", transformers), plan)
    assert (found.space, found.platform) == ("autoformer", transformers.predictor.platform.id)
    assert found.front.encodings.tolist() == expected.front.encodings.tolist()
    best = found.networks(2)
    assert found.networks()[:2] == best
    assert repr(found).endswith(f": {len(found.front)} networks within {limit_ms:g} ms, of {found.evaluations} looked at>")
    assert [network.objective for network in best] == found.front.objective[:2].tolist()
    predicted_ms = [transformers.predictor.predict(network.reference).latency_ms for network in best]
    assert [network.latency_ms for network in best] == pytest.approx(predicted_ms)
    document = found.to_json(1)
    assert (len(document["picks"]), document["picks"][0]) == (1, document["front"][0])
    assert document["front"][1]["parameters"] == dict(best[1].reference.parameters)


def test_the_objective_may_be_a_function(transformers: EncodingPredictor, limit_ms: float, tmp_path: Path) -> None:
    def depth(parameters: Mapping[str, Any]) -> float:
        return float(parameters["depth"])

    found = search(
        "autoformer", transformers.predictor, max_latency_ms=2 * limit_ms, objective=depth, confident=False, evaluations=80,
        population=40, state=tmp_path / "state.json",
    )  # fmt: skip

    assert found.objective.endswith("depth")
    assert found.networks(1)[0].objective == 14
    assert not (tmp_path / "state.json").exists()
