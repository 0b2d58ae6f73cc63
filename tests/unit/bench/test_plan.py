from collections import Counter

import pytest

from systone.bench.plan import WARMUP_ROUND, Level, Plan
from systone.errors import ConfigError

LEVELS = (Level("closed", 1), Level("closed", 16), Level("open", 2.5))


def test_every_level_has_its_warm_ups_and_every_round_sends_every_item_once() -> None:
    plan = Plan(items=7, levels=LEVELS, rounds=3, warmups=5)
    blocks = list(plan.blocks())
    for level in LEVELS:
        mine = [block for block in blocks if block.level == level]
        assert mine[0].round == WARMUP_ROUND
        assert mine[0].items == (0, 1, 2, 3, 4)
        assert [block.round for block in mine[1:]] == [0, 1, 2]
        assert all(block.items == tuple(range(7)) for block in mine[1:])
    assert sum(len(block.items) for block in blocks) == plan.num_requests == 3 * (5 + 3 * 7)


def test_no_two_blocks_share_their_texts_unless_asked() -> None:
    variants = [block.variant for block in Plan(items=7, levels=LEVELS).blocks()]
    assert len(set(variants)) == len(variants)
    same = Plan(items=7, levels=LEVELS, same_texts=True)
    assert {block.variant for block in same.blocks()} == {0}


def test_warm_ups_go_round_a_short_workload_and_can_be_left_out() -> None:
    short = Plan(items=2, levels=LEVELS[:1], warmups=5)
    assert next(iter(short.blocks())).items == (0, 1, 0, 1, 0)
    none = Plan(items=2, levels=LEVELS[:1], warmups=0)
    assert [block.round for block in none.blocks()] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_two_targets_get_the_same_parts_in_balanced_order(seed: int) -> None:
    plan = Plan(items=70, levels=LEVELS, targets=("a", "b"), part_size=33, seed=seed)
    for level in LEVELS:
        blocks = [b for b in plan.blocks() if b.level == level and b.round != WARMUP_ROUND]
        pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
        assert all({one.target, other.target} == {"a", "b"} for one, other in pairs)
        for one, other in pairs:
            assert (one.round, one.part, one.variant, one.items) == (
                other.round,
                other.part,
                other.variant,
                other.items,
            )
        first = Counter(one.target for one, _ in pairs)
        assert abs(first["a"] - first["b"]) <= 1
        assert sum(len(one.items) for one, _ in pairs) == 3 * 70


def test_the_seed_alone_decides_the_order() -> None:
    def order(seed: int) -> list[str]:
        plan = Plan(items=70, levels=LEVELS, targets=("a", "b"), seed=seed)
        return [block.target for block in plan.blocks()]

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(6)}) > 1


@pytest.mark.parametrize("key", ["c1", "c64", "r20", "r0.5"])
def test_a_level_is_its_key(key: str) -> None:
    assert Level.parse(key).key == key


@pytest.mark.parametrize("key", ["", "c", "c0", "c-1", "c1.5", "rx", "16", "c01", "rnan", "rinf"])
def test_what_is_no_level_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="is no level"):
        Level.parse(key)


def test_a_block_never_has_more_connections_than_requests() -> None:
    assert Level("closed", 64).workers(5) == 5
    assert Level("closed", 4).workers(5) == 4
    assert Level("open", 4.0).workers(1000) == 256


def test_levels_can_ask_the_same_texts_round_by_round() -> None:
    blocks = list(Plan(items=7, levels=LEVELS, same_levels=True).blocks())
    by_level = {
        level.key: [(b.round, b.variant) for b in blocks if b.level == level] for level in LEVELS
    }
    assert by_level["c1"] == [(WARMUP_ROUND, 0), (0, 1), (1, 2), (2, 3)]
    assert by_level["c16"] == by_level["r2.5"] == by_level["c1"]
