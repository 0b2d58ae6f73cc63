"""Which scans of the gated delta rule share a launch on SM 9.0."""

from systone.kernels.gdn.hopper import JoinedScan, joined
from systone.kernels.work import Scan


def per_depth(depths: int) -> list[Scan]:
    inner = [Scan.at(depth, leaf=False, long=True) for depth in range(depths)]
    leaves = [Scan.at(depths + i, leaf=True, long=i == 1) for i in range(2)]
    return [*inner, *leaves]


def test_depths_and_leaves_become_one_launch_with_flags() -> None:
    (launch,) = joined(per_depth(2))
    assert launch == JoinedScan(place=0, walk=0, places=4, leaves=False)
    assert launch.flags


def test_leaves_alone_need_no_flags() -> None:
    (launch,) = joined(per_depth(0))
    assert launch == JoinedScan(0, 0, 2, leaves=True)
    assert not launch.flags


def test_a_launch_has_at_most_four_places_and_all_are_covered() -> None:
    for depths in range(9):
        launches = joined(per_depth(depths))
        covered = [p for one in launches for p in range(one.place, one.place + one.places)]
        assert covered == list(range(depths + 2))
        assert all(one.places <= 4 for one in launches)
        assert [one.leaves for one in launches[:-1]] == [False] * (len(launches) - 1)


def test_a_scan_that_walks_its_ancestors_stays_alone() -> None:
    assert joined([Scan.of_all(2)]) == (JoinedScan(0, 2, 2, leaves=False),)
    assert not JoinedScan(0, 2, 2, leaves=False).flags
    assert len(joined([Scan.of_all(2), *per_depth(1)])) == 2


def test_places_that_do_not_follow_each_other_stay_apart() -> None:
    scans = [Scan.at(0, leaf=False, long=True), Scan.at(2, leaf=True, long=True)]
    assert [one.place for one in joined(scans)] == [0, 2]
