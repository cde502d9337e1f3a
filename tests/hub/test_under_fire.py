"""A server that is killed while many upload: nothing is lost, nothing is doubled."""

from __future__ import annotations

import pytest

from benchmarks.hub.serving import upload_under_fire

pytestmark = pytest.mark.slow


def test_nothing_is_lost_or_doubled_while_the_server_is_killed(location: str) -> None:
    found = upload_under_fire(location, uploads=36, clients=8)

    assert found["kills"] == 2
    assert (found["lost"], found["doubled"], found["strange"]) == (0, 0, 0)
