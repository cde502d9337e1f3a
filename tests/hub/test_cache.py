"""Answers are made once for all who wait, and a stale one is served while a newer is made."""

from __future__ import annotations

import asyncio
import threading

import pytest

from latcast.errors import HubError
from latcast.hub import cache
from latcast.hub.cache import AnswerCache, follow

KEY = ("devices",)


class Maker:
    """Makes 1, 2, 3..., each when it is let go."""

    def __init__(self) -> None:
        self.made = 0
        self.let_go = threading.Event()
        self.let_go.set()

    def __call__(self) -> bytes:
        self.let_go.wait(10)
        self.made += 1
        return str(self.made).encode()


def test_one_answer_is_made_for_many_who_wait() -> None:
    async def ask() -> list[bytes]:
        answers = AnswerCache()
        waiting = [asyncio.ensure_future(answers.answer(KEY, maker)) for _ in range(64)]
        await asyncio.sleep(0.01)
        maker.let_go.set()
        return [*await asyncio.gather(*waiting), await answers.answer(KEY, maker)]

    maker = Maker()
    maker.let_go.clear()

    assert asyncio.run(ask()) == [b"1"] * 65
    assert maker.made == 1


def test_after_a_change_the_new_answer_is_given_where_it_is_quick() -> None:
    async def ask() -> list[bytes]:
        answers = AnswerCache()
        first = await answers.answer(KEY, maker)
        answers.forget()
        return [first, await answers.answer(KEY, maker), await answers.answer(KEY, maker)]

    maker = Maker()

    assert asyncio.run(ask()) == [b"1", b"2", b"2"]


def test_the_stale_answer_is_given_while_a_slow_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "PATIENCE_S", 0.01)

    async def ask() -> list[bytes]:
        answers = AnswerCache()
        found = [await answers.answer(KEY, maker)]
        answers.forget()
        maker.let_go.clear()
        found += await asyncio.gather(*(answers.answer(KEY, maker) for _ in range(8)))
        maker.let_go.set()
        while (newest := await answers.answer(KEY, maker)) == b"1":
            await asyncio.sleep(0.001)
        return [*found, newest]

    maker = Maker()

    assert asyncio.run(ask()) == [b"1"] * 9 + [b"2"]
    assert maker.made == 2


def test_an_answer_begun_before_a_change_is_not_given_for_one_asked_after_it() -> None:
    async def ask() -> tuple[bytes, bytes]:
        answers = AnswerCache()
        maker.let_go.clear()
        early = asyncio.ensure_future(answers.answer(KEY, maker))
        await asyncio.sleep(0.01)
        answers.forget()
        late = asyncio.ensure_future(answers.answer(KEY, maker))
        await asyncio.sleep(0.01)
        maker.let_go.set()
        return await early, await late

    maker = Maker()

    assert asyncio.run(ask()) == (b"1", b"2")


def test_a_failure_reaches_those_who_wait_and_is_not_kept() -> None:
    def fails() -> bytes:
        raise HubError("gone")

    async def ask() -> bytes:
        answers = AnswerCache()
        with pytest.raises(HubError, match="gone"):
            await answers.answer(KEY, fails)
        return await answers.answer(KEY, Maker())

    assert asyncio.run(ask()) == b"1"


def test_the_answers_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_CACHED", 3)

    async def ask() -> list[bytes]:
        answers, makers = AnswerCache(), {name: Maker() for name in "abcde"}
        for name in "abcde":
            await answers.answer((name,), makers[name])
        return [await answers.answer((name,), makers[name]) for name in "edca"]

    assert asyncio.run(ask()) == [b"1", b"1", b"1", b"2"]


def test_a_change_by_another_process_is_noticed_and_a_database_that_fails_is_asked_again() -> None:
    revisions = iter([1, 1, None, 2, 2])
    seen = []

    def revision() -> int:
        found = next(revisions, 2)
        if found is None:
            raise HubError("no answer")
        return found

    async def run() -> None:
        following = asyncio.create_task(follow(revision, lambda: seen.append("changed"), poll_s=0.001))
        while not seen:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        following.cancel()

    asyncio.run(run())

    assert seen == ["changed"]
