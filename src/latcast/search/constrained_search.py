"""The best objective under a latency limit: all members are looked at where they are few, else NSGA-II searches (pymoo).

An interrupted search goes on from a file that holds its population, its front, and costly objective values.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import LatcastError
from latcast.extras import require
from latcast.folders import cache_folder, replacing
from latcast.platforms import On, load
from latcast.reading import read_json
from latcast.records import SCHEMA_VERSION
from latcast.search.encodings import EncodingPredictor
from latcast.search.objective import Accuracy, CallableObjective, Objective, objective_named
from latcast.search.result import Evaluated, SearchResult, no_networks, pareto_front
from latcast.spaces.nas.member_kernels import SMALL_SPACE, keep_table
from latcast.spaces.nas.segment_kernels import SegmentKernels

TOLD = 250
"""Networks between two reports of progress."""

POPULATION = 200
EVALUATIONS = 20_000


class NothingWithinLimitError(LatcastError):
    """A latency limit that no network meets."""


Watch = Callable[[float], None]
"""Called with the share that is done."""


@dataclass(frozen=True)
class SearchPlan:
    """Limit and effort of a search.

    Attributes:
        max_latency_ms: The limit.
        confident: Whether it is for the upper bound of the interval instead of the prediction.
        evaluations: Networks to look at.
        population: Networks of a generation.
        seed: Of every random choice.
    """

    max_latency_ms: float
    confident: bool = True
    evaluations: int = EVALUATIONS
    population: int = POPULATION
    seed: int = 0


def search(
    space: str,
    on: On,
    *,
    max_latency_ms: float,
    objective: str | Accuracy = "macs",
    confident: bool = True,
    evaluations: int = EVALUATIONS,
    population: int = POPULATION,
    seed: int = 0,
    state: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
) -> SearchResult:
    """Return the best networks of a search space under a latency limit.

    Args:
        space: Its name: "ofa_mobilenet_v3", "nas_bench_201", ...
        on: A platform id, the beginning of one, a bundle's path, or a predictor.
        max_latency_ms: The limit.
        objective: To maximise: a function of a network's JSON parameters, or a text for
            :func:`latcast.search.objective.objective_named`.
        confident: Whether the limit is for the upper bound of the interval instead of the prediction, which networks exceed more
            often than not.
        evaluations: Networks to look at.
        population: Networks of a generation.
        seed: Of every random choice.
        state: File that an interrupted search is kept in and gone on with; where None, one in the user's cache, or none where the
            objective is a function.
        watch: Sees the progress.

    Raises:
        UnknownNameError: No such space or objective.
        NothingWithinLimitError: No network within the limit was found.
        MissingExtraError: pymoo is not installed and the space is too large to look at whole.

    Example:
        >>> import latcast
        >>> phone = "pixel4/tflite-2.10/gpu/fp16"
        >>> found = latcast.search("nas_bench_201", phone, max_latency_ms=10.0)
        >>> best = found.networks(1)[0]
        >>> best.high_ms <= 10.0, latcast.predict(best.reference, phone).high_ms <= 10.0
        (True, True)
    """
    predictor = EncodingPredictor(load(on), space)
    plan = SearchPlan(max_latency_ms, confident, evaluations, population, seed)
    aim: Objective
    kept = None if state is None else Path(state)
    if isinstance(objective, str):
        aim = objective_named(objective, predictor)
        settings = {"space": space, "platform": predictor.predictor.platform.id, "objective": objective, **vars(plan)}
        kept = kept or default_state_path(settings)
    else:
        name = f"{getattr(objective, '__module__', '')}:{getattr(objective, '__qualname__', type(objective).__qualname__)}"
        aim = CallableObjective(name, objective, predictor.supernet)
    return search_encodings(predictor, aim, plan, state_path=kept, watch=watch)


def search_encodings(
    predictor: EncodingPredictor,
    objective: Objective,
    plan: SearchPlan,
    *,
    state_path: Path | None = None,
    watch: Watch | None = None,
) -> SearchResult:
    """Search a space for a platform.

    Args:
        predictor: Of the platform and the space.
        objective: To maximise.
        plan: Limit and effort.
        state_path: Where an interrupted search is kept after each generation, and gone on with; None keeps nothing. The file
            is removed at the end.
        watch: Sees the progress.

    Raises:
        NothingWithinLimitError: No network within the limit was found.
        MissingExtraError: pymoo is not installed and the space is too large to look at whole.
    """
    watch = watch or (lambda share: None)
    members = objective.members
    if members is None and not objective.costly and predictor.supernet.size <= SMALL_SPACE:
        members = predictor.supernet.all_members()
        if isinstance(predictor.kernels, SegmentKernels):
            # Kernels are found once and kept in a table.
            for start in range(0, len(members), TOLD):
                predictor.kernels.lookup(members[start : start + TOLD])
                watch(min(1.0, (start + TOLD) / len(members)))
            keep_table(predictor.kernels)
    if members is not None:
        found = _evaluate(predictor, objective, members)
        limited_ms = found.limited_ms(confident=plan.confident)
        evaluations, fastest_ms = len(found), float(limited_ms.min())
        front = pareto_front(found.take(limited_ms <= plan.max_latency_ms))
    else:
        front, evaluations, fastest_ms = _evolve(predictor, objective, plan, state_path, watch)
    if not len(front):
        raise NothingWithinLimitError(
            f"no network of {predictor.supernet.name} within {plan.max_latency_ms:g} ms was found; the fastest of {evaluations} "
            f"looked at takes {fastest_ms:.3g} ms: raise --max-latency-ms"
        )
    return SearchResult(
        predictor, objective.name, plan.max_latency_ms, plan.confident, evaluations, members is not None, front
    )  # fmt: skip


def _evaluate(predictor: EncodingPredictor, objective: Objective, encodings: np.ndarray) -> Evaluated:
    latencies = predictor.predict_many(encodings)
    return Evaluated(encodings, objective.values(encodings), latencies.latency_ms, latencies.low_ms, latencies.high_ms)


def _evolve(
    predictor: EncodingPredictor, objective: Objective, plan: SearchPlan, state_path: Path | None, watch: Watch
) -> tuple[Evaluated, int, float]:
    """Return the front, the number of networks looked at, and the least latency seen."""
    require("searching a large space", "pymoo")
    supernet = predictor.supernet
    platform = predictor.predictor.platform.id
    settings = {"space": supernet.name, "platform": platform, "objective": objective.name, **vars(plan)}
    state = (read_state(state_path, settings) if state_path is not None else None) or SearchState(settings)
    if isinstance(objective, CallableObjective):
        objective.known.update({tuple(encoding): value for encoding, value in state.known})
    front, fastest_ms = no_networks(len(supernet.choices)), np.inf
    if state.front:
        front = _evaluate(predictor, objective, np.array(state.front, dtype=np.int16))
    start = np.array(state.population, dtype=np.int16) if state.population else None
    done = state.evaluations
    for generation in _generations(predictor, objective, plan, start, done):
        limited = generation.limited_ms(confident=plan.confident)
        fastest_ms = min(fastest_ms, float(limited.min()))
        front = pareto_front(front.joined(generation.take(limited <= plan.max_latency_ms)))
        done += len(generation)
        if state_path is not None:
            state.evaluations, state.front = done, front.encodings.tolist()
            state.population = generation.encodings.tolist()
            if isinstance(objective, CallableObjective):
                state.known = [(list(encoding), value) for encoding, value in objective.known.items()]
            write_state(state_path, state)
        watch(min(1.0, done / plan.evaluations))
    if state_path is not None:
        state_path.unlink(missing_ok=True)
    return front, done, fastest_ms


def _generations(
    predictor: EncodingPredictor, objective: Objective, plan: SearchPlan, start: np.ndarray | None, done: int
) -> Iterator[Evaluated]:
    """Yield evaluated generations of NSGA-II (Deb et al., 2002) until the evaluations are used up."""
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.config import Config
    from pymoo.core.evaluator import Evaluator
    from pymoo.core.problem import Problem
    from pymoo.operators.crossover.ux import UniformCrossover
    from pymoo.problems.static import StaticProblem

    Config.warnings["not_compiled"] = False  # a hint on standard output, where JSON belongs
    supernet = predictor.supernet
    if start is None:
        start = supernet.distinct_encodings(plan.population, plan.seed)
    problem = Problem(n_var=len(supernet.choices), n_obj=2, n_ieq_constr=1, xl=0, xu=supernet.choices - 1, vtype=int)
    algorithm = NSGA2(
        pop_size=plan.population,
        sampling=start.astype(np.int64),
        crossover=UniformCrossover(),
        mutation=choice_mutation(supernet.choices),
        eliminate_duplicates=True,
    )
    algorithm.setup(problem, termination=("n_gen", plan.evaluations), seed=plan.seed + done, verbose=False)
    while done < plan.evaluations:
        asked = algorithm.ask()
        if asked is None or not len(asked):
            return  # the population yields no new network
        encodings = supernet.canonical(np.rint(np.asarray(asked.get("X"), dtype=np.float64)).astype(np.int16))
        generation = _evaluate(predictor, objective, encodings)
        asked.set("X", encodings.astype(np.int64))
        limited = generation.limited_ms(confident=plan.confident)
        columns = {
            "F": np.stack([-generation.objective, generation.latency_ms], axis=1),
            "G": (limited - plan.max_latency_ms)[:, None],
        }
        Evaluator().eval(StaticProblem(problem, **columns), asked)
        algorithm.tell(infills=asked)
        done += len(generation)
        yield generation


CHANGES = 2.0
"""Choices of a network that a mutation changes, on average."""


def choice_mutation(choices: np.ndarray) -> Any:
    """Return a mutation operator of pymoo for columns with so many choices each."""
    from pymoo.core.mutation import Mutation

    class ChoiceMutation(Mutation):  # type: ignore[misc]
        """A mutation that draws each column again with a small probability."""

        def _do(self, problem: Any, X: np.ndarray, *, random_state: np.random.Generator, **options: Any) -> np.ndarray:
            changes = random_state.random(X.shape) < min(0.5, CHANGES / len(choices))
            return np.where(changes, random_state.integers(0, choices, size=X.shape), X)

    return ChoiceMutation()


@dataclass
class SearchState:
    """An interrupted search.

    Attributes:
        settings: Of the search; a state of other settings is refused.
        evaluations: Networks looked at so far.
        population: Encodings of the last generation.
        front: Encodings of the best so far.
        known: Encodings and the costly values of their objective.
    """

    settings: dict[str, Any]
    evaluations: int = 0
    population: list[list[int]] = field(default_factory=list)
    front: list[list[int]] = field(default_factory=list)
    known: list[tuple[list[int], float]] = field(default_factory=list)


def default_state_path(settings: dict[str, Any]) -> Path:
    """Return a file in the user's cache, named by the settings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / "searches" / f"{digest}.json"


def read_state(path: Path, settings: dict[str, Any]) -> SearchState | None:
    """Read the state of an interrupted search; None where there is no file.

    Raises:
        LatcastError: The file is not a state, or that of another search.
    """
    if not path.is_file():
        return None
    try:
        data = read_json(path, error=LatcastError)
        state = SearchState(
            data["settings"], int(data["evaluations"]), data["population"], data["front"],
            [(list(encoding), float(value)) for encoding, value in data["known"]],
        )  # fmt: skip
    except (LatcastError, ValueError, KeyError, TypeError) as problem:
        raise LatcastError(
            f"{path}: not the state of a search ({problem!r}); remove it, or name another with --state"
        ) from problem
    if state.settings != settings:
        raise LatcastError(f"{path}: the state of another search ({state.settings}); remove it, or name another with --state")
    return state


def write_state(path: Path, state: SearchState) -> None:
    """Replace the file whole, so that it is never half written.

    Raises:
        LatcastError: The folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_text(json.dumps({"schema": SCHEMA_VERSION, **vars(state)}))
    except OSError as problem:
        raise LatcastError(f"cannot write the state of the search to {path}: {problem.strerror}") from problem
