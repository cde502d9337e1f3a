"""Corresponding kernels of two networks."""

from __future__ import annotations

from latcast.predictors.prediction import KernelLatency
from latcast.report.alignment import CAME, CHANGED, SAME, WENT, align, diff_lines


def kernel(name: str, latency_ms: float = 1.0, kernel_type: str = "conv", fused: str = "Conv", **sizes: float) -> KernelLatency:
    return KernelLatency(name, kernel_type, tuple(fused.split("+")), sizes, latency_ms, True)


def aligned(a: list[KernelLatency], b: list[KernelLatency]) -> list[tuple[str, str | None, str | None]]:
    return [(each.change, each.a.name if each.a else None, each.b.name if each.b else None) for each in align(a, b)]


def test_the_same_kernels_stand_for_each_other_whatever_they_are_called() -> None:
    a, b = [kernel("x", width=8), kernel("y", width=16)], [kernel("p", width=8), kernel("q", width=16)]

    assert aligned(a, b) == [(SAME, "x", "p"), (SAME, "y", "q")]


def test_a_kernel_put_in_between_came_and_one_left_out_went() -> None:
    a = [kernel("one", width=1), kernel("two", width=2)]
    b = [kernel("one", width=1), kernel("new", 2.5, "softmax"), kernel("two", width=2)]

    assert aligned(a, b) == [(SAME, "one", "one"), (CAME, None, "new"), (SAME, "two", "two")]
    assert aligned(b, a) == [(SAME, "one", "one"), (WENT, "new", None), (SAME, "two", "two")]
    assert [each.difference_ms for each in align(a, b)] == [0.0, 2.5, 0.0]


def test_a_changed_kernel_names_its_old_and_new_numbers() -> None:
    [found] = align([kernel("c", 1.0, width=8, side=7)], [kernel("c", 3.0, width=12, side=7)])

    assert (found.change, found.fields, found.difference_ms) == (CHANGED, {"width": (8, 12)}, 2.0)
    assert found.to_json()["configuration"] == {"width": [8, 12]}


def test_of_two_candidates_the_one_of_that_name_and_then_the_closer_is_the_changed_one() -> None:
    assert aligned([kernel("b", width=8)], [kernel("a", width=9), kernel("b", width=20)])[1] == (CHANGED, "b", "b")
    assert aligned([kernel("z", width=8)], [kernel("a", width=64), kernel("b", width=9)])[1] == (CHANGED, "z", "b")


def test_a_changed_kernel_among_many_of_one_kind_is_found_where_it_stands() -> None:
    a = [kernel(f"a{place}", width=16) for place in range(7)]
    b = [kernel(f"b{place}", width=24 if place == 4 else 16) for place in range(7)]

    assert [each.change for each in align(a, b)] == [SAME] * 4 + [CHANGED] + [SAME] * 2


def test_kernels_of_two_types_never_stand_for_each_other() -> None:
    assert aligned([kernel("a")], [kernel("a", kernel_type="pool")]) == [(WENT, "a", None), (CAME, None, "a")]


def test_as_many_as_can_be_stand_for_each_other_in_order() -> None:
    a = [kernel("a", width=1), kernel("p", kernel_type="pool", side=3), kernel("c", width=3)]
    b = [kernel("d", width=4), kernel("q", kernel_type="pool", side=2), kernel("e", width=5), kernel("f", width=6)]

    assert aligned(a, b) == [(CHANGED, "a", "d"), (CHANGED, "p", "q"), (CHANGED, "c", "e"), (CAME, None, "f")]


def test_a_kernel_that_fuses_others_is_changed() -> None:
    [found] = align([kernel("c", fused="Conv+Relu", fused_flops=1)], [kernel("c", fused="Conv+HardSwish", fused_flops=4)])

    assert found.change == CHANGED
    assert list(diff_lines([found])) == ["! c: conv Conv+Relu -> Conv+HardSwish: 1.00 -> 1.00 ms"]


def test_a_diff_summarises_equal_kernels_far_from_any_change() -> None:
    same = [kernel(f"k{index}", width=index) for index in range(9)]
    slower = [kernel(f"k{index}", 1.5, width=index) for index in range(9)]

    lines = list(diff_lines(align([*same, kernel("end", width=20)], [*slower, kernel("end", 2.0, width=30)])))

    assert lines == [
        "@@ 7 the same, 3.50 ms @@",
        "  k7: conv: 1.50 ms",
        "  k8: conv: 1.50 ms",
        "! end: conv width 20 -> 30: 1.00 -> 2.00 ms",
    ]
