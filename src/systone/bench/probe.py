"""What a server says of itself and its machine of it, between blocks: modes, memory, device time.

Whatever isn't told is None: a peer has no `/metrics` of ours, a remote machine no process to read.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from systone.bench.wire import Address

__all__ = ["ServerProbe", "gpu_facts"]

_TIMEOUT_S = 10.0
_DEVICE_S = re.compile(rb"^systone_device_seconds_total(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_GPU_EVERY_S = 2.0  # nvidia-smi takes a good part of a second
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServerProbe:
    """`pid`: the server's process, if it is ours."""

    def __init__(self, address: Address, pid: int | None = None) -> None:
        self._address = address
        self._pid = pid
        self._local = address.host in _LOOPBACK
        self._gpu: tuple[float, int | None] = (float("-inf"), None)

    def modes(self) -> dict[str, Any]:
        """Effective modes by model, as `/health` gives them; empty for a server without."""
        return {model["name"]: model["modes"] for model in self._models()}

    def sample(self) -> dict[str, Any]:
        """`device_s`: time of device batches so far; `device_active_s`: time the device itself was
        at work, by its own clock; `device_peak_bytes`: the most the server had allocated;
        `device_used_bytes`: what it holds now, or what the GPUs of this machine do where it
        doesn't tell; `rss_bytes`: the process."""
        page = self._get("/metrics")
        found = _DEVICE_S.findall(page or b"")
        modes = [model["modes"] for model in self._models()]
        known = [peak for one in modes if (peak := _memory(one, "peak_bytes")) is not None]
        used = [held for one in modes if (held := _memory(one, "used_bytes")) is not None]
        active = [seconds for one in modes if (seconds := _active_s(one)) is not None]
        return {
            "at_s": round(time.time(), 3),
            "device_s": sum(map(float, found)) if found else None,
            "device_active_s": sum(active) if active else None,
            "device_peak_bytes": sum(known) if known else None,
            "device_used_bytes": sum(used) if used else self._gpu_used(),
            "rss_bytes": None if self._pid is None else _rss_bytes(self._pid),
        }

    def _models(self) -> list[dict[str, Any]]:
        try:
            body = json.loads(self._get("/health") or b"{}")
        except ValueError:
            return []
        models = body.get("models") if isinstance(body, dict) else None
        if not isinstance(models, list):
            return []
        return [m for m in models if isinstance(m, dict) and isinstance(m.get("modes"), dict)]

    def _get(self, path: str) -> bytes | None:
        link = http.client.HTTPConnection(
            self._address.host, self._address.port, timeout=_TIMEOUT_S
        )
        try:
            link.request("GET", self._address.root + path)
            reply = link.getresponse()
            body = reply.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            link.close()
        return body if reply.status == 200 else None

    def _gpu_used(self) -> int | None:
        if not self._local:
            return None
        read_at, used = self._gpu
        if time.monotonic() - read_at >= _GPU_EVERY_S:
            used = gpu_facts()["used_bytes"]
            self._gpu = (time.monotonic(), used)
        return used


def gpu_facts() -> dict[str, Any]:
    """Names, driver and memory in use of this machine's NVIDIA GPUs; None without nvidia-smi."""
    nothing = {"name": None, "driver": None, "used_bytes": None}
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return nothing
    query = "--query-gpu=name,driver_version,memory.used"
    done = subprocess.run(
        [tool, query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False
    )
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    if done.returncode or not rows or any(len(row) != 3 for row in rows):
        return nothing
    used = [int(row[2]) for row in rows if row[2].isdecimal()]
    return {
        "name": ", ".join(row[0] for row in rows),
        "driver": rows[0][1],
        "used_bytes": sum(used) * 2**20 if used else None,
    }


def _memory(modes: dict[str, Any], name: str) -> int | None:
    memory = modes.get("memory")
    found = memory.get(name) if isinstance(memory, dict) else None
    return found if type(found) is int else None


def _active_s(modes: dict[str, Any]) -> float | None:
    """Of the part of the modes that tells how long the device was busy and idle."""
    for part in modes.values():
        if isinstance(part, dict) and "idle_s" in part and type(part.get("busy_s")) is float:
            return float(part["busy_s"])
    return None


def _rss_bytes(pid: int) -> int | None:
    """Resident memory of a process, where the system tells it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None
