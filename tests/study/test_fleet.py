"""Where trials go, and which node is blamed for what."""

from __future__ import annotations

from sweeper.study.fleet import EVIDENCE, FAILURES_IN_A_ROW, Fleet, Node
from sweeper.study.resources import Hold, Need, Resources

ONE = Need(cores=1)


def fleet(*has: int | Resources) -> Fleet:
    """Nodes with so many cores, or with more than cores."""
    return Fleet(
        Node(f"id-{i}", f"node {i}", Resources(each) if isinstance(each, int) else each)
        for i, each in enumerate(has)
    )


def run(nodes: Fleet, need: Need) -> str | None:
    """Where a trial goes, and stays."""
    node = nodes.place(need)
    if node is None:
        return None
    held = node.room_for(need)
    assert held is not None
    node.held.append(held)
    return node.node_id


def busy(node: Node) -> None:
    node.held.append(Hold(Resources(node.has.cores), ()))


def test_trials_spread_and_a_large_one_goes_where_it_has_room() -> None:
    nodes = fleet(2, 4, 2)
    places = [run(nodes, Need(cores)) for cores in (1, 1, 1, 2)]
    assert places == ["id-1", "id-1", "id-0", "id-1"]
    assert run(nodes, Need(3)) is None
    assert nodes.total_cores == 8
    assert nodes.largest_node_cores == 4


def test_a_trial_goes_where_all_that_it_needs_is_free() -> None:
    nodes = fleet(Resources(8, 0, 16), Resources(2, 1, 16), Resources(4, 1, 4))
    assert run(nodes, Need(1, 1, 8)) == "id-1"  # the most cores have no GPU, or no memory
    assert run(nodes, Need(1, 1, 8)) is None
    assert [run(nodes, Need(1, 0, 8)) for _ in range(4)] == ["id-0", "id-0", "id-1", None]
    assert nodes.lacking(Need(8, 1)) == Resources(8, 1)
    assert nodes.lacking(Need(4, 1)) is None
    nodes.nodes["id-2"].is_quarantined = True
    assert nodes.lacking(Need(4, 1)) == Resources(4, 1)


def test_a_trial_that_may_have_a_gpu_goes_anywhere_and_takes_one_where_there_is_one() -> None:
    nodes = fleet(Resources(4, 0), Resources(3, 1))
    places = [run(nodes, Need(1, 1, is_gpu_optional=True)) for _ in range(6)]
    assert places == ["id-0", "id-0", "id-1", "id-0", "id-0", None]


def test_what_failed_on_one_node_is_tried_on_another() -> None:
    nodes = fleet(4, 2)
    nodes.note(nodes.nodes["id-0"], failure="lost")
    assert nodes.place(ONE) is nodes.nodes["id-1"]
    assert nodes.place(Need(4)) is nodes.nodes["id-0"]
    nodes.note(nodes.nodes["id-0"], failure=None)
    assert nodes.place(ONE) is nodes.nodes["id-0"]


def test_a_node_that_fails_all_while_the_others_do_not_is_quarantined() -> None:
    nodes = fleet(1, 1)
    good, bad = nodes.nodes.values()
    for _ in range(4):
        nodes.note(good, failure=None)
    told = [nodes.note(bad, failure="no library") for _ in range(FAILURES_IN_A_ROW + 1)]
    assert told == [[]] * (FAILURES_IN_A_ROW - 1) + [[bad], []]
    busy(good)
    assert nodes.place(ONE) is None
    assert nodes.total_cores == nodes.largest_node_cores == 1


def test_a_node_that_fails_quickly_waits_for_what_the_others_make_of_it() -> None:
    nodes = fleet(1, 1)
    good, bad = nodes.nodes.values()
    busy(good)
    taken = 0
    while nodes.place(ONE) is bad:
        assert nodes.note(bad, failure="no library") == []
        taken += 1
    assert taken == FAILURES_IN_A_ROW
    told = [nodes.note(good, failure=None) for _ in range(EVIDENCE)]
    assert [bad] in told


def test_a_node_is_held_no_longer_once_others_fail_as_well() -> None:
    nodes = fleet(1, 1)
    other, node = nodes.nodes.values()
    busy(other)
    for _ in range(FAILURES_IN_A_ROW):
        nodes.note(node, failure="diverged")
    assert nodes.place(ONE) is None
    for i in range(EVIDENCE):
        nodes.note(other, failure="diverged" if i % 2 else None)
    assert nodes.place(ONE) is node


def test_a_success_ends_a_row_of_failures() -> None:
    nodes = fleet(1, 1)
    good, other = nodes.nodes.values()
    for _ in range(20):
        nodes.note(good, failure=None)
    for _ in range(10):
        assert not any(nodes.note(other, failure="x") for _ in range(FAILURES_IN_A_ROW - 1))
        nodes.note(other, failure=None)


def test_what_fails_everywhere_is_no_node_s_fault() -> None:
    nodes = fleet(1, 1, 1)
    for _ in range(100):
        node = nodes.place(ONE)
        assert node is not None
        assert nodes.note(node, failure="x") == []


def test_the_last_node_is_never_quarantined() -> None:
    nodes = fleet(1, 1)
    last, gone = nodes.nodes.values()
    for _ in range(50):
        nodes.note(gone, failure=None)
        nodes.note(last, failure=None)
    while not nodes.note(gone, failure="x"):
        pass
    assert not any(nodes.note(last, failure="x") for _ in range(100))


def test_where_half_of_all_configurations_fail_a_short_row_proves_nothing() -> None:
    nodes = fleet(1, 1)
    other, node = nodes.nodes.values()
    for _ in range(10):
        nodes.note(other, failure=None)
        nodes.note(other, failure="x")
    told = [nodes.note(node, failure="x") for _ in range(7)]
    assert told == [[]] * 6 + [[node]]  # 1/2^7 < 1 %
