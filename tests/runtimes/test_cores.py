"""Cores that a unit means, on devices with one, two, three and four kinds of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import RuntimeFailure
from latcast.records import Platform, Unit
from latcast.runtimes.cores import Cores, local_cores, mask

PHONE = Cores.of_speeds({**dict.fromkeys(range(4), 230.0), **dict.fromkeys((4, 5, 6), 801.0), 7: 1024.0})
BOARD = Cores.of_speeds(dict.fromkeys(range(4), 1800000.0))


def test_kinds_of_cores_differ_by_speed_and_named_from_small_to_large() -> None:
    assert PHONE.named() == {"small": (0, 1, 2, 3), "med": (4, 5, 6), "large": (7,)}
    assert Cores.of_speeds({0: 380, 1: 380, 2: 1024, 3: 1024}).named() == {"small": (0, 1), "large": (2, 3)}
    assert BOARD.named() == {}


def test_cores_that_a_computer_clocks_a_little_higher_are_of_the_same_kind() -> None:
    assert Cores.of_speeds({0: 5600000, 1: 5600000, 2: 5800000}).alike


@pytest.mark.parametrize(
    ("asked", "unit", "cpus"),
    [
        ("cpu1", "1large", (7,)),
        ("cpu2", "2med", (5, 6)),
        ("cpu4", "4small", (0, 1, 2, 3)),
        ("2small", "2small", (2, 3)),
        ("3med+warm", "3med+warm", (4, 5, 6)),
        ("cpu3+sse", "3med+sse", (4, 5, 6)),
        ("gpu", "gpu", ()),
        ("1large1med", "1large1med", (6, 7)),
        ("2small1large+warm", "1large2small+warm", (2, 3, 7)),
    ],
)
def test_a_platform_id_names_the_cores_of_a_phone_that_ran(asked: str, unit: str, cpus: tuple[int, ...]) -> None:
    assert PHONE.unit(asked) == (unit, cpus)


def test_the_id_of_a_device_with_equal_cores_says_how_many() -> None:
    assert BOARD.unit("cpu2") == ("cpu2", (2, 3))
    assert Cores(()).unit("cpu2") == ("cpu2", ())


@pytest.mark.parametrize(
    ("cores", "asked", "said"),
    [
        (PHONE, "cpu5", "would mix cores"),
        (PHONE, "1large4med", "no 1large4med: it has 1 large, 3 med, 4 small"),
        (PHONE, "1small1small", "no 1small1small"),
        (PHONE, "2large", "no 2large: it has 1 large, 3 med, 4 small"),
        (PHONE, "0small", "no 0small"),
        (BOARD, "2large", "say cpu2"),
        (BOARD, "cpu5", "needs 5 CPUs"),
    ],
)
def test_cores_that_are_not_there_or_that_would_be_mixed_unasked_are_refused(cores: Cores, asked: str, said: str) -> None:
    with pytest.raises(RuntimeFailure, match=said):
        cores.unit(asked)


def test_middle_kinds_of_four_have_no_name() -> None:
    cores = Cores.of_speeds({0: 200, 1: 500, 2: 500, 3: 500, 4: 800, 5: 1024})
    assert cores.named() == {"small": (0,), "large": (5,)}
    with pytest.raises(RuntimeFailure, match="fits no kind"):
        cores.unit("cpu3")


@given(st.dictionaries(st.integers(0, 15), st.floats(1, 1e7), min_size=1), st.integers(1, 16))
def test_every_cpu_is_of_one_kind_and_a_unit_never_mixes_kinds(speeds: dict[int, float], threads: int) -> None:
    cores = Cores.of_speeds(speeds)
    assert sorted(cpu for kind in cores.kinds for cpu in kind) == sorted(speeds)
    try:
        unit, cpus = cores.unit(f"cpu{threads}")
    except RuntimeFailure:
        return
    assert len(cpus) == threads == Unit.parse(unit).threads
    assert any(set(cpus) <= set(kind) for kind in cores.kinds)


def test_only_allowed_cpus_run_and_chosen_ones_name_the_unit() -> None:
    assert PHONE.unit("cpu1", allowed=(1, 2, 4, 5)) == ("1med", (5,))
    assert PHONE.unit("2small", allowed=(1, 2, 4)) == ("2small", (1, 2))
    assert PHONE.named_by("cpu2", (4, 6)) == PHONE.named_by("cpu2", (4, 5, 6)) == "2med"
    assert PHONE.named_by("cpu2", (3, 4)) == PHONE.named_by("1small1med", (3, 4)) == "1med1small"
    assert PHONE.named_by("cpu2+warm", ()) == "cpu2+warm"
    with pytest.raises(RuntimeFailure, match="not those of cpu2"):
        PHONE.named_by("cpu2", (3, 4, 5))
    with pytest.raises(RuntimeFailure, match="not those of 2small"):
        PHONE.named_by("2small", (4, 5))


def test_cores_are_read_from_sys_by_capacity_else_by_clock(tmp_path: Path) -> None:
    for number, (capacity, clock) in enumerate([(400, 1800), (400, 1800), (1024, 1800)]):
        folder = tmp_path / f"cpu{number}"
        (folder / "cpufreq").mkdir(parents=True)
        (folder / "cpu_capacity").write_text(f"{capacity}\n")
        (folder / "cpufreq" / "cpuinfo_max_freq").write_text(f"{clock}000\n")
    (tmp_path / "cpuidle").mkdir()
    assert local_cores(tmp_path).kinds == ((0, 1), (2,))
    for number in range(3):
        (tmp_path / f"cpu{number}" / "cpu_capacity").unlink()
    assert local_cores(tmp_path).kinds == ((0, 1, 2),)
    assert local_cores(tmp_path / "nothing") == Cores(())


def test_cpus_are_written_as_taskset_takes_them() -> None:
    assert mask((4, 5, 6)) == "70"


@pytest.mark.parametrize(
    ("text", "kind", "threads"),
    [
        ("cpu4", "cpu", 4),
        ("wasm2", "wasm", 2),
        ("gpu+b256", "gpu", 1),
        ("1large1med", "cpu", 2),
        ("npu", "npu", 1),
        ("gpu1", "gpu", 1),
    ],
)
def test_a_unit_is_parsed_into_kind_and_threads(text: str, kind: str, threads: int) -> None:
    assert (Unit.parse(text).kind, Unit.parse(text).threads) == (kind, threads)
    assert Platform("p", "tflite", "2.10", text, "fp32").threads == threads
