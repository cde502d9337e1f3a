"""The probe, its quiet time, and where that is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.errors import MeasurementError
from latcast.measure.probe import (
    HostProbe,
    QuietTimesFile,
    calibrate_probe,
    default_quiet_times_path,
    numpy_instruction_sets,
    probe_key,
    settle,
)


class ScriptedProbe:
    """Readings from a list, the last for ever."""

    parts: tuple[str, ...] = ("compute", "memory")
    key = "scripted"

    def __init__(self, readings: list[tuple[float, float]]) -> None:
        self._readings = readings

    def read_ms(self) -> tuple[float, ...]:
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]


def test_a_reading_has_a_positive_time_for_each_part() -> None:
    probe = HostProbe()
    readings = np.array([probe.read_ms() for _ in range(20)])
    assert readings.shape == (20, len(probe.parts))
    assert (readings > 0).all()


def test_a_reading_is_short_enough_to_stand_between_runs() -> None:
    # 5 ms is fifty times what it takes; the floor over many readings is no matter of the machine's load.
    probe = HostProbe()
    assert np.sum([probe.read_ms() for _ in range(50)], axis=1).min() < 5


def test_the_key_is_the_same_in_one_process_and_names_the_instruction_sets() -> None:
    assert HostProbe().key == probe_key()
    assert len(probe_key()) == 16
    assert numpy_instruction_sets() == tuple(sorted(numpy_instruction_sets()))


def test_calibration_takes_bursts_by_their_median_and_of_these_a_low_quantile() -> None:
    # Five bursts of three; a single lucky reading (0.1) and a slow burst (9) must not decide.
    bursts = [[2.0, 0.1, 2.0], [1.0, 1.0, 9.0], [9.0, 9.0, 9.0], [3.0, 3.0, 3.0], [4.0, 4.0, 4.0]]
    probe = ScriptedProbe([(value, 2 * value) for burst in bursts for value in burst])
    quiet_ms = calibrate_probe(probe, bursts=5, readings_per_burst=3, pause_s=0)
    # Medians 1, 2, 3, 4, 9: their 20 % quantile lies 0.8 of the way from the first to the second.
    assert quiet_ms == pytest.approx((1.8, 3.6))


class TestQuietTimes:
    def test_the_first_calibration_is_taken_as_it_is(self) -> None:
        assert settle(None, [0.5, 0.6]) == (0.5, 0.6)

    def test_only_a_clearly_faster_calibration_replaces_the_known_quiet_time(self) -> None:
        assert settle((1.0, 1.0), (0.96, 0.94)) == (1.0, 0.94)
        assert settle((1.0, 1.0), (2.0, 3.0)) == (1.0, 1.0)

    def test_a_probe_with_other_parts_has_a_new_quiet_time(self) -> None:
        assert settle((1.0,), (2.0, 3.0)) == (2.0, 3.0)

    def test_the_file_keeps_one_entry_for_each_key(self, tmp_path: Path) -> None:
        file = QuietTimesFile(tmp_path / "deep" / "quiet.json")
        assert file.quiet_ms("a") is None
        file.keep_quiet_ms("a", (0.01, 0.02))
        file.keep_quiet_ms("b", (0.03,))
        file.keep_quiet_ms("a", (0.009, 0.02))
        again = QuietTimesFile(file.path)
        assert again.quiet_ms("a") == (0.009, 0.02)
        assert again.quiet_ms("b") == (0.03,)
        assert list(file.path.parent.iterdir()) == [file.path]

    def test_it_lies_in_the_users_cache(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("LATCAST_HOME", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert default_quiet_times_path() == tmp_path / "latcast" / "quiet_times.json"

    @pytest.mark.parametrize("content", ["{", "[1]", '{"a": "fast"}', '{"a": 3}'])
    def test_a_damaged_file_is_refused_with_a_remedy(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "quiet.json"
        path.write_text(content)
        with pytest.raises(MeasurementError, match=r"quiet\.json is not a file of quiet times .*delete it"):
            QuietTimesFile(path).quiet_ms("a")

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(MeasurementError, match="XDG_CACHE_HOME"):
            QuietTimesFile(tmp_path / "file" / "quiet.json").keep_quiet_ms("a", (1.0,))
