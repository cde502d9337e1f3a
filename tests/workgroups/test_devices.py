"""Device profiles: those at hand, and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import LatcastError, UnknownNameError
from latcast.workgroups.devices import load_profile, parse_profile, profile_names

LIMITS = "max_work_group_size = 256\nmax_x = 256\nmax_y = 256\nmax_z = 64\n"


def test_the_four_phones_of_table_1_have_its_core_counts_and_no_k_ac() -> None:
    phones = {name: load_profile(name) for name in ("hikey970", "vivox30", "pixel3xl", "mi9")}

    assert {name: phone.compute_units for name, phone in phones.items()} == {
        "hikey970": 12, "vivox30": 5, "pixel3xl": 2, "mi9": 2,
    }  # fmt: skip
    assert {phone.simultaneous_items for phone in phones.values()} == {None}


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_says_where_its_numbers_are_from(name: str) -> None:
    assert load_profile(name).source


def test_a_missing_field_of_a_profile_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'{LIMITS}title = "Mine"\ncompute_units = 3\n')

    found = load_profile(path)

    assert (found.name, found.title, found.compute_units) == ("mine", "Mine", 3)
    assert (found.simultaneous_items, found.cache_line_bytes) == (None, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("max_x = ", "not TOML"),
        ("max_x = 4\n", "missing: max_work_group_size, max_y, max_z"),
        (f"{LIMITS}cores = 4\n", "unknown: cores"),
        (f"{LIMITS}compute_units = 0\n", "compute_units is 0"),
        (f'{LIMITS}compute_units = "2"\n', "compute_units is '2'"),
        (f"{LIMITS}title = 3\n", "not a text: title"),
    ],
)
def test_malformed_profiles_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(LatcastError, match=reason):
        parse_profile(text.encode(), "mine", "mine.toml")


def test_unknown_profiles_name_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"hikey970"):
        load_profile("hikey")
    with pytest.raises(LatcastError, match="there is no device profile"):
        load_profile(tmp_path / "none.toml")


def test_a_damaged_or_oversized_profile_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    for name, content in {"binary": b"\xff\xfe", "deep": b"a = " + b"[" * 50_000, "large": b"#" * 100_001}.items():
        path = tmp_path / f"{name}.toml"
        path.write_bytes(content)
        with pytest.raises(LatcastError, match=f"{name}.toml"):
            load_profile(path)
