import os
from pathlib import Path

import pytest

from systone.bench.environment import environment
from systone.bench.null_server import null_server
from systone.bench.probe import ServerProbe, gpu_facts
from systone.bench.wire import Address, Connection
from tests.unit.bench.conftest import StubServer


def test_a_server_is_asked_for_its_modes_memory_and_device_time(stub: StubServer) -> None:
    probe = ServerProbe(Address.of(stub.url), os.getpid())
    assert probe.modes() == {"stub": stub.modes}
    sample = probe.sample()
    assert sample["device_s"] == 1.5
    assert sample["device_peak_bytes"] == 3 << 20
    assert sample["rss_bytes"] > 10 << 20


def test_a_device_tells_how_long_it_was_at_work(stub: StubServer) -> None:
    stub.modes = {
        "memory": {"peak_bytes": 9, "used_bytes": 7},
        "queue": {"idle_s": 4.0, "busy_s": "no"},
        "clock": {"idle_s": 1.0, "busy_s": 2.5},
    }
    sample = ServerProbe(Address.of(stub.url)).sample()
    assert sample["device_active_s"] == 2.5
    assert (sample["device_peak_bytes"], sample["device_used_bytes"]) == (9, 7)


def test_what_a_server_does_not_tell_is_none(stub: StubServer) -> None:
    stub.modes = {"memory": "plenty"}
    assert ServerProbe(Address.of(stub.url)).sample()["device_peak_bytes"] is None
    stub.tells = False
    probe = ServerProbe(Address.of(stub.url))
    assert probe.modes() == {}
    told = probe.sample()
    assert told["device_s"] is told["device_peak_bytes"] is told["rss_bytes"] is None


def test_gpus_are_read_from_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA X, 580.1, 1024'\necho 'NVIDIA Y, 580.1, 512'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    expected = {"name": "NVIDIA X, NVIDIA Y", "driver": "580.1", "used_bytes": 1536 << 20}
    assert gpu_facts() == expected
    tool.write_text("#!/bin/sh\necho 'Failed to initialize NVML'\nexit 9\n")
    assert gpu_facts() == {"name": None, "driver": None, "used_bytes": None}


def test_the_environment_names_what_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    found = environment("abc123")
    assert found["commit"] == "abc123"
    assert found["packages"]["numpy"]
    assert found["processors"] == os.cpu_count()
    monkeypatch.setenv("PATH", "/nowhere")
    assert environment(None)["commit"] is None  # no git


def test_the_null_server_answers_by_item_on_one_connection() -> None:
    with null_server([b"zero", b"one" * 100_000, b"two"]) as address:
        connection = Connection(address, 5.0)
        connection.open()
        for item, body in ((2, b"two"), (0, b"zero"), (1, b"one" * 100_000)):
            request = address.encode(b"x" * 70_000, f"c1.0.0.{item}")
            status, reply = connection.ask(request)
            assert (status, reply.body) == (200, body)
        connection.close()
