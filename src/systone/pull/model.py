"""A whole model from a hub into a directory: every part, verified, resumable.

Owns the directory's layout and the room check; the network is `hub`'s. Sizes are bytes.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from systone.errors import ConfigError
from systone.pull.hub import Hub
from systone.pull.table import Model, Part
from systone.pull.verification import RemoteFile
from systone.weights.progress import Report, silent

__all__ = ["Pulled", "pull"]


@dataclass(frozen=True, slots=True)
class Pulled:
    """`commits`: repository -> the commit its files are of."""

    directory: Path
    commits: dict[str, str]
    num_files: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class _Plan:
    repo: str
    commit: str
    out: Path
    files: list[RemoteFile]


def pull(model: Model, out: Path, hub: Hub, report: Report = silent) -> Pulled:
    """Fetch every part into `out`; a second call resumes and fetches only what is missing.

    Raises ConfigError: nothing found, no room, a fault of the hub, a file that isn't the pinned
    one (it is removed)."""
    plans = [_planned(part, hub, model, out) for part in model.parts]
    _check_room(out, plans)
    for plan in plans:
        for file in plan.files:
            hub.fetch(plan.repo, plan.commit, file, plan.out, report)
    files = [file for plan in plans for file in plan.files]
    return Pulled(
        out, {p.repo: p.commit for p in plans}, len(files), sum(file.size for file in files)
    )


def _planned(part: Part, hub: Hub, model: Model, out: Path) -> _Plan:
    repo = part.repo
    commit = hub.commit(repo, part.revision)
    files = hub.files(repo, commit, part.patterns, part.pins)
    if not files:
        raise ConfigError(f"{hub.url}: {repo}@{commit} has no file that {model.name} needs")
    # A repository may hold the folder itself.
    inside = part.folder and all(file.path.startswith(f"{part.folder}/") for file in files)
    return _Plan(repo, commit, out if inside else out / part.folder, files)


def _check_room(out: Path, plans: list[_Plan]) -> None:
    missing = sum(
        file.size for plan in plans for file in plan.files if not (plan.out / file.path).exists()
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(out).free
    except OSError as error:
        raise ConfigError(f"{out}: can't be made ({error.strerror})") from None
    if missing > free:
        raise ConfigError(f"{out}: {missing:,} bytes are to be fetched, {free:,} are free")
