"""Waiting until nothing is under way."""

import threading

from gateway.forge.activity import Activity


def test_idle_is_when_all_has_ended() -> None:
    activity = Activity()
    assert activity.wait_until_idle(0)
    activity.begin("one")
    activity.begin("two")
    activity.end("one")
    assert not activity.wait_until_idle(0)
    activity.end("two")
    activity.end("two")
    assert activity.wait_until_idle(0)


def test_who_waits_is_woken() -> None:
    activity = Activity()
    activity.begin("one")
    woken: list[bool] = []
    thread = threading.Thread(target=lambda: woken.append(activity.wait_until_idle(60)))
    thread.start()
    activity.end("one")
    thread.join()
    assert woken == [True]
