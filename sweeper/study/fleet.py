"""The nodes that trials run on: where the next one goes, and which node gets no more.

A node that fails what it gets, although the others do not, is quarantined: for the rest of this
launch it gets no further trials. It takes a row of failures that is unlikely by chance, so a node
is not blamed for configurations that fail anywhere; and it takes a success elsewhere, so a study
that fails everywhere quarantines nobody and ends as one whose trials all failed. Who fails does so
quickly, and would have taken most trials by the time that the others end their first: until they
have, it is held.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sweeper.study.resources import Hold, Need, Resources, hold, lacking

FAILURES_IN_A_ROW = 3
"""Fewer are no pattern."""
CHANCE = 0.01
"""How likely a row of failures may be, at the other nodes' share of failures, and still be
blamed on the node."""
EVIDENCE = 5
"""Runs that have ended elsewhere: a node that is not blamed by then is held no longer."""


@dataclass(slots=True)
class Node:
    """A node that runs trials."""

    node_id: str
    name: str
    """For people."""
    has: Resources
    """That trials can have there."""
    held: list[Hold] = field(default_factory=list)
    """By trials that run there."""
    succeeded: int = 0
    failed: int = 0
    failed_in_a_row: int = 0
    failure: str = ""
    """Why the last one failed."""
    is_quarantined: bool = False

    @property
    def free_cores(self) -> int:
        """Cores that no trial has."""
        return self.has.cores - sum(held.of.cores for held in self.held)

    def room_for(self, need: Need, *, beside: Iterable[Hold] = ()) -> Hold | None:
        """What another trial would get there, `beside` what else is held; None where it has no
        room."""
        return hold(need, self.has, [*self.held, *beside])


class Fleet:
    """The nodes by id; those that have died are taken out."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.nodes = {node.node_id: node for node in nodes}

    @property
    def total_cores(self) -> int:
        """Of the nodes that get trials."""
        return sum(node.has.cores for node in self._in_use())

    @property
    def largest_node_cores(self) -> int:
        """Cores of the largest node that gets trials; 0 where none does."""
        return max((node.has.cores for node in self._in_use()), default=0)

    def place(self, need: Need) -> Node | None:
        """The node that a trial goes to now: one that did not just fail another, and with the
        most cores free. None while none has room."""
        able = [n for n in self._in_use() if n.room_for(need) and not self._is_held(n)]
        return min(able, key=lambda n: (n.failed_in_a_row, -n.free_cores), default=None)

    def lacking(self, need: Need) -> Resources | None:
        """What of it no node that gets trials has; see `resources.lacking`."""
        return lacking(need, [node.has for node in self._in_use()])

    def note(self, node: Node, *, failure: str | None) -> list[Node]:
        """A run ended there, and why it failed if it did; returns whom that quarantines."""
        if failure is None:
            node.succeeded += 1
            node.failed_in_a_row = 0
        else:
            node.failed += 1
            node.failed_in_a_row += 1
            node.failure = failure
        found = []
        for suspect in self._in_use():
            if self._is_to_blame(suspect):
                suspect.is_quarantined = True  # before the next is judged: it is no witness
                found.append(suspect)
        return found

    def _is_to_blame(self, node: Node) -> bool:
        others = self._others(node)
        succeeded = sum(other.succeeded for other in others)
        failed = sum(other.failed for other in others)
        share = (failed + 1) / (failed + succeeded + 2)  # Laplace's rule of succession
        is_suspect = node.failed_in_a_row >= FAILURES_IN_A_ROW
        return is_suspect and succeeded > 0 and share**node.failed_in_a_row < CHANCE

    def _is_held(self, node: Node) -> bool:
        others = self._others(node)
        to_come = any(o.held and o.failed_in_a_row < FAILURES_IN_A_ROW for o in others)
        ended = sum(other.succeeded + other.failed for other in others)
        return to_come and node.failed_in_a_row >= FAILURES_IN_A_ROW and ended < EVIDENCE

    def _others(self, node: Node) -> list[Node]:
        return [other for other in self._in_use() if other is not node]

    def _in_use(self) -> list[Node]:
        return [node for node in self.nodes.values() if not node.is_quarantined]
