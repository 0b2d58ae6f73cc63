import pytest

from systone.errors import EngineDownError
from systone.schedule.health import Condition, Status


def test_only_a_ready_engine_is_ready() -> None:
    condition = Condition()
    with pytest.raises(EngineDownError, match="starting: loading models"):
        condition.require_ready()
    assert condition.move(Status.READY)
    condition.require_ready()
    assert condition.move(Status.DRAINING, "stopping")
    with pytest.raises(EngineDownError, match="draining: stopping"):
        condition.require_ready()


def test_failure_is_final_and_keeps_its_first_reason() -> None:
    condition = Condition()
    assert condition.move(Status.FAILED, "device lost")
    assert not condition.move(Status.FAILED, "another")
    assert not condition.move(Status.READY)
    assert not condition.move(Status.DRAINING, "stopping")
    assert (condition.status, condition.reason) == (Status.FAILED, "device lost")
