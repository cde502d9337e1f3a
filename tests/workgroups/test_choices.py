"""How recommended sizes did in a sweep."""

from __future__ import annotations

import numpy as np

from latcast.workgroups.choices import recommended_choices
from latcast.workgroups.defaults import kfast
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.sweep import Sweep
from latcast.workgroups.workloads import depthwise_convolution
from tests.workgroups.made_up_gpu import PROFILE

WORKLOAD = depthwise_convolution(8, 8, 32)  # a grid of 8 x 8 x 8: kFast is wz = 8, then 4 x 2 of the 64 items
KFAST, FIXED, WIDE, TINY = WorkGroup(4, 2, 8), WorkGroup(8, 4, 1), WorkGroup(8, 8, 1), WorkGroup(1, 1, 1)


def sweep_of(*rows: tuple[WorkGroup, float]) -> Sweep:
    sizes, times = zip(*rows, strict=True)
    return Sweep(PROFILE, str(WORKLOAD), WORKLOAD.descriptor, WORKLOAD.grid, tuple(sizes), np.array(times)[:, None])


def test_choices_have_their_rank_and_how_many_times_the_best_they_take() -> None:
    assert kfast(WORKLOAD.grid, WORKLOAD.descriptor, PROFILE.limits) == KFAST
    found = recommended_choices(sweep_of((TINY, 8.0), (KFAST, 3.0), (FIXED, 2.0), (WIDE, 2.5)))

    # Rule V asks for 64 items in the plane, which 8x8x1 alone has.
    assert [(choice.name, choice.size, choice.rank, choice.relative) for choice in found] == [
        ("rules", WIDE, 2, 1.25),
        ("kFast", KFAST, 3, 1.5),
        ("fixed", FIXED, 1, 1.0),
    ]


def test_a_choice_that_was_not_measured_has_no_rank() -> None:
    found = {choice.name: choice for choice in recommended_choices(sweep_of((TINY, 8.0), (WIDE, 2.0)))}

    assert found["kFast"].to_json() == {"name": "kFast", "size": [4, 2, 8], "rank": None, "relative": None}
