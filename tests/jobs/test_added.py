"""Counts of requests that were added: a store holds the answers, and names no more."""

from __future__ import annotations

from bloomdupe.jobs.added import Added


def test_an_answer_in_a_store_sets_no_attribute_of_another_name() -> None:
    added = Added()
    answer = {"taken_in": 2, "seen": 1, "count": 1, "__class__": 1, "taken_up": 7}
    for _ in range(2):
        added.count({**answer, "problems": [["url", "why"]]}, taken_up=False)
    assert (added.taken_in, added.seen, added.taken_up) == (4, 2, False)
    assert vars(added).keys().isdisjoint({"count", "__class__"})
    assert added.problems.as_dict()
