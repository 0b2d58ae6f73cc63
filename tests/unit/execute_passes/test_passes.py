"""Batches through passes with a runner whose score is a hash of a row's own tokens: any score
that lands at another row shows."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systone.errors import ConfigError, EngineDownError, EngineFaultError
from systone.execute.base import Proofs
from systone.execute.passes import PassExecutor
from systone.models.base import Cost, Prepared, Readout
from systone.plan import (
    POLICIES,
    PassBudget,
    PassTables,
    Row,
    Sharing,
    build_tables,
    build_trie,
)
from systone.protocol.types import Noul, Request
from tests.unit.plan.walker import flat_path, path_of, requests, segment, tokens_of


def score_of(tokens: list[int]) -> float:
    digest = hashlib.sha256(np.array(tokens, np.int32).tobytes()).digest()
    return float(np.float32(int.from_bytes(digest[:4], "big")))


@dataclass
class HashRunner:
    """Scores a row by walking its path in the tables. `broken` may replace a pass's scores."""

    width: int = 1
    broken: object = None
    ran: list[PassTables] = field(default_factory=list)

    def start(self) -> None: ...
    def close(self) -> None: ...

    def describe(self):
        return {"device": "hash"}

    def run(self, tables: PassTables):
        self.ran.append(tables)
        scores = np.zeros((tables.readout_row.shape[0], self.width), np.float32)
        for readout in range(scores.shape[0]):
            flat = flat_path(tables, path_of(tables, readout))
            assert flat[-1] == tables.readout_token[readout]
            scores[readout] = score_of([int(tables.token_ids[i]) for i in flat])
        return self.broken(len(self.ran), scores) if self.broken else scores


def prepared(rows: list[Row], policy: str = "default") -> Prepared:
    trie = build_trie(rows, Sharing(policy))
    return Prepared(
        request=Request("S", {"q": Noul("Q")}),
        cost=Cost(trie.load.tokens, trie.load.rows, trie.load.states),
        input_tokens=int(trie.row_len.sum()),
        work=trie,
    )


def wanted(rows: list[Row]) -> list[float]:
    return [score_of(tokens_of(row)) for row in rows]


def request_of(name: int, rows: int = 2) -> list[Row]:
    return [Row((segment(name, 30), segment(40 + i, 5)), 0) for i in range(rows)]


budgets = st.builds(
    PassBudget,
    tokens=st.sampled_from([1, 130, 400, 10**6]),
    rows=st.sampled_from([1, 2, 3, 100]),
    states=st.sampled_from([1, 3, 100]),
)


@given(st.lists(requests(), min_size=1, max_size=4), budgets, st.sampled_from(POLICIES))
@settings(max_examples=80, deadline=None)
def test_every_request_gets_its_own_scores_in_row_order(batch, budget, policy):
    executor = PassExecutor(HashRunner(), budget, Sharing(policy))
    outcomes = executor.execute([prepared(rows, policy) for rows in batch])
    for rows, outcome in zip(batch, outcomes, strict=True):
        assert isinstance(outcome, Readout)
        assert outcome.values.dtype == np.float32
        assert outcome.values[:, 0].tolist() == wanted(rows)


def test_several_requests_share_a_pass():
    runner = HashRunner()
    executor = PassExecutor(runner, PassBudget())
    executor.execute([prepared(request_of(i)) for i in range(5)])
    assert len(runner.ran) == 1


@pytest.mark.parametrize("name", ["readout_request", "readout_row"])
@pytest.mark.parametrize("names", [(1,), (1, 2)])
def test_a_pass_that_mixes_up_its_read_outs_is_never_scattered(name, names):
    executor = PassExecutor(HashRunner(), PassBudget())

    def mixed(parts):
        tables = build_tables(parts)
        array = getattr(tables, name)
        array[:] = array[::-1].copy() if len(set(array.tolist())) > 1 else array + 1
        return tables

    executor._memo.of = mixed
    outcomes = executor.execute([prepared(request_of(each)) for each in names])
    assert len(outcomes) == len(names)
    assert all(isinstance(outcome, EngineFaultError) for outcome in outcomes)
    assert all("mixes up" in str(outcome) for outcome in outcomes)


def test_stats_tell_each_request_its_own_reuse():
    executor = PassExecutor(HashRunner(), PassBudget())
    single, pair = executor.execute([prepared(request_of(1, 1)), prepared(request_of(1, 2))])
    assert single.stats["prefix_cache"] == {
        "policy": "default",
        "enabled": False,
        "scope": "none",
        "saved_tokens": 0,
    }
    assert pair.stats["prefix_cache"] == {
        "policy": "default",
        "enabled": True,
        "scope": "within_question",
        "saved_tokens": 30,
    }
    assert pair.stats["passes"] == 1
    assert pair.stats["inference_seconds"] > 0


def test_a_split_request_reports_less_reuse_and_more_passes():
    executor = PassExecutor(HashRunner(), PassBudget(rows=2))
    (outcome,) = executor.execute([prepared(request_of(1, 5))])
    assert outcome.values[:, 0].tolist() == wanted(request_of(1, 5))
    assert outcome.stats["prefix_cache"]["saved_tokens"] == 2 * 30
    assert outcome.stats["passes"] == 3


@pytest.mark.parametrize(
    "broken",
    [
        lambda n, scores: scores[:-1],
        lambda n, scores: np.concatenate([scores, scores[:1]]),
        lambda n, scores: scores[:, 0],
        lambda n, scores: scores[:0],
    ],
    ids=["one short", "one too many", "no width", "none"],
)
def test_a_wrong_count_fails_the_request_and_is_never_scattered(broken):
    executor = PassExecutor(HashRunner(broken=broken), PassBudget())
    outcomes = executor.execute([prepared(request_of(1)), prepared(request_of(2))])
    assert [type(outcome) for outcome in outcomes] == [EngineFaultError] * 2
    assert outcomes[0] is not outcomes[1]
    assert "4 read-outs gave scores of shape" in str(outcomes[0])


def fail_second(n: int, scores):
    if n == 2:
        raise RuntimeError("kaput")
    return scores


def test_a_failing_pass_fails_only_the_requests_in_it():
    runner = HashRunner(broken=fail_second)
    executor = PassExecutor(runner, PassBudget(rows=2))
    batch = [request_of(i) for i in range(4)]
    outcomes = executor.execute([prepared(rows) for rows in batch])
    assert len(runner.ran) == 4
    assert isinstance(outcomes[1], EngineFaultError)
    assert isinstance(outcomes[1].__cause__, RuntimeError)
    for i in (0, 2, 3):
        assert outcomes[i].values[:, 0].tolist() == wanted(batch[i])


def test_the_rest_of_a_failed_request_does_not_run():
    runner = HashRunner(broken=fail_second)
    executor = PassExecutor(runner, PassBudget(rows=2))
    failed, fine = executor.execute([prepared(request_of(1, 9)), prepared(request_of(2))])
    assert isinstance(failed, EngineFaultError)
    assert fine.values[:, 0].tolist() == wanted(request_of(2))
    assert len(runner.ran) == 3


def test_a_lost_device_is_raised_to_the_caller():
    def lost(n, scores):
        raise EngineDownError("gone")

    executor = PassExecutor(HashRunner(broken=lost), PassBudget())
    with pytest.raises(EngineDownError):
        executor.execute([prepared(request_of(1))])


def test_a_fault_keeps_its_code():
    def fault(n, scores):
        raise EngineFaultError("bad", code="out_of_memory")

    executor = PassExecutor(HashRunner(broken=fault), PassBudget())
    (outcome,) = executor.execute([prepared(request_of(1))])
    assert outcome.code == "out_of_memory"


def test_a_request_planned_under_another_policy_fails_alone():
    executor = PassExecutor(HashRunner(), PassBudget(), Sharing("off"))
    wrong, right = executor.execute(
        [prepared(request_of(1), "default"), prepared(request_of(2), "off")]
    )
    assert isinstance(wrong, EngineFaultError)
    assert right.values[:, 0].tolist() == wanted(request_of(2))


def test_wide_read_outs_keep_their_width():
    executor = PassExecutor(HashRunner(width=3), PassBudget())
    (outcome,) = executor.execute([prepared(request_of(1))])
    assert outcome.values.shape == (2, 3)


def test_an_empty_batch_runs_nothing():
    runner = HashRunner()
    assert list(PassExecutor(runner, PassBudget()).execute([])) == []
    assert runner.ran == []


def test_description_names_policy_budget_and_device():
    described = PassExecutor(HashRunner(), PassBudget(10, 20, 30), Sharing("off")).describe()
    assert described == {
        "policy": "off",
        "shares": False,
        "pass_budget": {"tokens": 10, "rows": 20, "states": 30},
        "device": "hash",
    }


@dataclass
class Checked(HashRunner):
    """A runner with a self-check that came out as `found`."""

    found: Proofs = field(default_factory=Proofs)

    def proofs(self) -> Proofs:
        return self.found


def test_fixed_starts_only_where_products_are_proven_invariant():
    for runner in (HashRunner(), Checked(), Checked(found=Proofs(False, True))):
        with pytest.raises(ConfigError, match="policy fixed"):
            PassExecutor(runner, PassBudget(), Sharing("fixed")).start()
    PassExecutor(Checked(found=Proofs(m_invariant=True)), PassBudget(), Sharing("fixed")).start()


@pytest.mark.parametrize("policy", ["shared", "auto"])
def test_a_sharing_policy_does_not_start_where_the_self_check_refused_it(policy):
    refused = PassExecutor(Checked(found=Proofs(True, False)), PassBudget(), Sharing(policy))
    with pytest.raises(ConfigError, match=f"policy {policy}"):
        refused.start()
    PassExecutor(HashRunner(), PassBudget(), Sharing(policy)).start()


def test_where_sharing_was_refused_the_default_runs_every_row_on_its_own_path():
    policy = "default"
    runner = Checked(found=Proofs(sharing=False))
    executor = PassExecutor(runner, PassBudget(), Sharing(policy))
    executor.start()
    rows = request_of(1, 3)
    (outcome,) = executor.execute([prepared(rows, policy)])
    assert outcome.values[:, 0].tolist() == wanted(rows)
    assert runner.ran[0].num_tokens == 3 * 35
    assert outcome.stats["prefix_cache"] == {
        "policy": policy,
        "enabled": False,
        "scope": "none",
        "saved_tokens": 0,
    }
    assert executor.describe()["shares"] is False


class ReadingRunner(HashRunner):
    """Scores a read-out by its path up to its own token."""

    def run(self, tables: PassTables):
        scores = np.zeros((tables.readout_row.shape[0], 1), np.float32)
        for readout in range(scores.shape[0]):
            flat = flat_path(tables, path_of(tables, readout))
            seen = flat[: flat.index(int(tables.readout_token[readout])) + 1]
            scores[readout] = score_of([int(tables.token_ids[i]) for i in seen])
        return self.broken(1, scores) if self.broken else scores


def _reading(rows: list[Row]) -> list[Row]:
    """Each row read at its last segment's first, middle and last token, as far as they differ."""
    made = []
    for row in rows:
        last = row.path[-1].tokens.size - 1
        made.append(Row(row.path, row.question, tuple(sorted({0, last // 2, last}))))
    return made


@given(st.lists(requests(), min_size=1, max_size=3), budgets, st.sampled_from(POLICIES))
@settings(max_examples=60, deadline=None)
def test_every_read_out_of_a_row_gets_its_own_score(batch, budget, policy):
    batch = [_reading(rows) for rows in batch]
    executor = PassExecutor(ReadingRunner(), budget, Sharing(policy))
    outcomes = executor.execute([prepared(rows, policy) for rows in batch])
    for rows, outcome in zip(batch, outcomes, strict=True):
        expected = []
        for row in rows:
            tokens = tokens_of(row)
            before = len(tokens) - row.path[-1].tokens.size
            expected += [score_of(tokens[: before + at + 1]) for at in row.readouts]
        assert outcome.values[:, 0].tolist() == expected


def test_a_runner_that_drops_a_read_out_fails_the_pass():
    runner = ReadingRunner(broken=lambda _, scores: scores[:-1])
    (outcome,) = PassExecutor(runner, PassBudget()).execute([prepared(_reading(request_of(1)))])
    assert isinstance(outcome, EngineFaultError)
    assert "6 read-outs gave scores of shape (5, 1)" in str(outcome)
