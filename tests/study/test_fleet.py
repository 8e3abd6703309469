"""Where trials go, and which node is blamed for what."""

from __future__ import annotations

from sweeper.study.fleet import EVIDENCE, FAILURES_IN_A_ROW, Fleet, Node


def fleet(*cores: int) -> Fleet:
    return Fleet(Node(f"id-{i}", f"node {i}", n) for i, n in enumerate(cores))


def test_trials_spread_and_a_large_one_goes_where_it_has_room() -> None:
    nodes = fleet(2, 4, 2)
    places = []
    for cores in (1, 1, 1, 2):
        node = nodes.place(cores)
        assert node is not None
        node.busy_cores += cores
        places.append(node.node_id)
    assert places == ["id-1", "id-1", "id-0", "id-1"]
    assert nodes.place(3) is None
    assert nodes.total_cores == 8
    assert nodes.largest_node_cores == 4


def test_what_failed_on_one_node_is_tried_on_another() -> None:
    nodes = fleet(4, 2)
    nodes.note(nodes.nodes["id-0"], failure="lost")
    assert nodes.place(1) is nodes.nodes["id-1"]
    assert nodes.place(4) is nodes.nodes["id-0"]
    nodes.note(nodes.nodes["id-0"], failure=None)
    assert nodes.place(1) is nodes.nodes["id-0"]


def test_a_node_that_fails_all_while_the_others_do_not_is_quarantined() -> None:
    nodes = fleet(1, 1)
    good, bad = nodes.nodes.values()
    for _ in range(4):
        nodes.note(good, failure=None)
    told = [nodes.note(bad, failure="no library") for _ in range(FAILURES_IN_A_ROW + 1)]
    assert told == [[]] * (FAILURES_IN_A_ROW - 1) + [[bad], []]
    good.busy_cores = 1
    assert nodes.place(1) is None
    assert nodes.total_cores == nodes.largest_node_cores == 1


def test_a_node_that_fails_quickly_waits_for_what_the_others_make_of_it() -> None:
    nodes = fleet(1, 1)
    good, bad = nodes.nodes.values()
    good.busy_cores = 1
    taken = 0
    while nodes.place(1) is bad:
        assert nodes.note(bad, failure="no library") == []
        taken += 1
    assert taken == FAILURES_IN_A_ROW
    told = [nodes.note(good, failure=None) for _ in range(EVIDENCE)]
    assert [bad] in told


def test_a_node_is_held_no_longer_once_others_fail_as_well() -> None:
    nodes = fleet(1, 1)
    other, node = nodes.nodes.values()
    other.busy_cores = 1
    for _ in range(FAILURES_IN_A_ROW):
        nodes.note(node, failure="diverged")
    assert nodes.place(1) is None
    for i in range(EVIDENCE):
        nodes.note(other, failure="diverged" if i % 2 else None)
    assert nodes.place(1) is node


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
        node = nodes.place(1)
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
