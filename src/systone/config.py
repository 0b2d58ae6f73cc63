"""Every setting: its default, its check, its help line; and the only reader of the environment.

A setting is a dataclass field made by `_setting`. Its flag is `--max-queue`, its variable
`SYSTONE_MAX_QUEUE`; a flag wins over a variable, a variable over the default. Whatever is unknown
or can't be meant stops start-up with a ConfigError of one line. Times are seconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

from systone.errors import ConfigError
from systone.protocol.types import Dialect
from systone.schedule.budget import Budget

__all__ = [
    "EngineConfig",
    "ModelSettings",
    "Policy",
    "ServerConfig",
    "Settings",
    "read_environment",
    "read_settings",
    "setting_fields",
    "setting_text",
]

Policy = Literal["off", "fixed", "default", "shared", "auto"]
Parse = Callable[[str], Any]
T = TypeVar("T")

PREFIX = "SYSTONE_"


def _setting(default: Any, parse: Parse, help: str) -> Any:
    return field(default=default, metadata={"parse": parse, "help": help})


def _number(kind: Callable[[str], Any], low: float, high: float) -> Parse:
    def parse(text: str) -> Any:
        value = kind(text)
        if not low <= value <= high:
            raise ValueError(f"must be {low:g} to {high:g}")
        return value

    return parse


def _integer(low: int, high: int = 2**31) -> Parse:
    return _number(int, low, high)


def _seconds(low: float, high: float = 86_400.0) -> Parse:
    return _number(float, low, high)


def _optional(parse: Parse) -> Parse:
    return lambda text: None if text == "none" else parse(text)


def _one_of(*names: str) -> Parse:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return text

    return parse


def _switch(text: str) -> bool:
    return bool(_one_of("on", "off")(text) == "on")


def _device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise ValueError("must be auto, cpu, cuda or cuda:N")
    return text


def _keys(text: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in text.split(","))
    if not all(keys):
        raise ValueError("an empty key")
    return keys


def setting_text(value: Any) -> str:
    """A setting's value as a flag or variable would give it."""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


def _require_valid(section: Any) -> None:
    """Values given in Python pass the same checks as text does."""
    for f in fields(section):
        value = getattr(section, f.name)
        if "parse" in f.metadata and value != f.default:
            try:
                valid = f.metadata["parse"](setting_text(value)) == value
            except ValueError as error:
                raise ConfigError(f"{f.name}: {value!r} {_reason(error)}") from None
            if not valid:
                raise ConfigError(f"{f.name}: {value!r} is not a value of this setting")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How one model is loaded and run. `source`: a built-in name or a directory."""

    source: str = "systone-mini"
    policy: Policy = _setting(  # noqa: RUF009  (a field, not a shared default)
        "default",
        _one_of("off", "fixed", "default", "shared", "auto"),
        "prefix reuse inside a request: off, fixed, default, shared or auto",
    )
    pack: bool = _setting(
        True, _switch, "off: one request, one row a forward, eager, nothing shared (the rollback)"
    )
    max_batch_tokens: int = _setting(
        4096, _integer(1), "tokens of one device batch; a GPU takes fewer where more gain nothing"
    )
    max_batch_rows: int = _setting(1024, _integer(1), "scored rows of one device batch")
    max_batch_states: int = _setting(256, _integer(1), "forked states of one device batch")
    max_batch_requests: int = _setting(256, _integer(1), "requests of one device batch")
    graph_tokens: int | None = _setting(
        None,
        _optional(_integer(64, 65_536)),
        "largest token bucket captured as a CUDA graph; none: max-batch-tokens",
    )
    max_whole_s: float = _setting(
        0.06, _seconds(0.001), "a pass that takes longer runs in parts, with short ones in between"
    )
    max_length: int | None = _setting(
        None,
        _optional(_integer(1)),
        "longest row in tokens, for which the device is set up; none: the model's own limit",
    )
    base: str | None = _setting(
        None, _optional(str), "directory of the base checkpoint a package is merged into"
    )
    merge: str = _setting(
        "contract",
        _one_of("contract", "double-rounding", "single-rounding", "unrounded"),
        "LoRA merge rule; contract: as the model's authors merge",
    )
    truncation: str = _setting(
        "contract",
        _one_of("contract", "keep-head", "keep-tail", "refuse"),
        "too long a state: contract (what the model's own does), keep-head, keep-tail, refuse",
    )
    date_facts: bool = _setting(
        False, _switch, "Kev only: a state is told how far apart its dates are (KEV_DATE_FACTS)"
    )
    preset: str | None = _setting(
        None, _optional(str), "prompt format of a label read-out; none: decision.json's, or letters"
    )
    readout: str | None = _setting(
        None,
        _optional(_one_of("label", "statement")),
        "how a causal model is read; none: decision.json's, or label",
    )
    orders: str | None = _setting(
        None,
        _optional(_one_of("none", "reverse", "rotate")),
        "option orders averaged by a label read-out; none: decision.json's, or none",
    )
    device: str = _setting("auto", _device, "auto, cpu, cuda or cuda:N")
    dtype: str = _setting(
        "auto", _one_of("auto", "float32", "bfloat16"), "auto: bfloat16 on a GPU, float32 on a CPU"
    )

    def __post_init__(self) -> None:
        _require_valid(self)
        if not self.pack and self.policy not in ("default", "off"):
            raise ConfigError(
                f"--pack off shares nothing, so it can't go with --policy {self.policy}"
            )

    @property
    def effective_policy(self) -> Policy:
        return self.policy if self.pack else "off"

    @property
    def budget(self) -> Budget:
        """What the scheduler may put into one batch of this model."""
        return Budget(
            tokens=self.max_batch_tokens,
            rows=self.max_batch_rows,
            states=self.max_batch_states,
            requests=self.max_batch_requests if self.pack else 1,
        )


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The scheduler and its workers. `model`: the settings of models named by source only."""

    model: ModelSettings = ModelSettings()
    max_queue: int = _setting(512, _integer(1), "accepted requests that may await the device")
    workers: int = _setting(2, _integer(1, 64), "threads that check and tokenise requests")
    max_batch_s: float = _setting(
        60.0, _seconds(0.1), "a batch that runs longer means a frozen worker: the engine fails"
    )
    quantum_s: float = _setting(
        0.02, _seconds(0.001, 10.0), "device time of a model's turn when several have work"
    )
    drain_s: float = _setting(30.0, _seconds(0.0), "how long accepted requests may finish on stop")
    warmup: bool = _setting(True, _switch, "run each model's own mixed requests before ready")
    jev_aliases: bool = _setting(
        True, _switch, "jev-latest and jev-preview name the first model; off refuses them"
    )
    switch_interval_s: float = _setting(
        0.0002, _seconds(0.00001, 1.0), "interpreter thread switch interval, set for the process"
    )
    awake_s: float = _setting(
        0.002,
        _seconds(0.0, 1.0),
        "how long a GPU's thread stays awake after a request alone, to meet the next; 0: it sleeps",
    )

    def __post_init__(self) -> None:
        _require_valid(self)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The HTTP side."""

    host: str = _setting("127.0.0.1", str, "address to listen on")
    port: int = _setting(8080, _integer(0, 65_535), "port to listen on; 0 picks a free one")
    dialect: Dialect = _setting(  # noqa: RUF009  (a field, not a shared default)
        "default",
        _one_of("default", "jev-exact", "open-jev", "kev"),
        "wording of errors and replies",
    )
    api_key: tuple[str, ...] = _setting(
        (), _keys, "accepted bearer keys, comma separated or repeated; none: no check"
    )
    max_body_bytes: int = _setting(
        4 * 2**20, _integer(1024), "largest body, as sent and after decompression"
    )
    deadline_s: float | None = _setting(
        60.0, _optional(_seconds(0.001)), "default deadline of a request from its headers on"
    )
    strict: bool = _setting(False, _switch, "refuse request fields that are not known")
    extras: bool = _setting(False, _switch, "send x_systone without being asked by header")
    access_log: bool = _setting(False, _switch, "one log line per request")
    log_level: str = _setting(
        "info", _one_of("debug", "info", "warning", "error"), "least severe message logged"
    )
    backlog: int = _setting(2048, _integer(1, 65_535), "connections the system may hold unaccepted")
    keep_alive_s: int = _setting(75, _integer(1, 3600), "idle time before a connection is closed")

    def __post_init__(self) -> None:
        _require_valid(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it, checked, with the models to serve (the first is the default)."""

    models: tuple[ModelSettings, ...]
    engine: EngineConfig
    server: ServerConfig


def setting_fields() -> Mapping[str, Field[Any]]:
    """Every setting a flag or variable can give, by its field's name."""
    return {
        f.name: f
        for section in (ModelSettings, EngineConfig, ServerConfig)
        for f in fields(section)
        if "parse" in f.metadata
    }


def read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The text of every SYSTONE_ variable, by setting; `model` is the list of sources.

    Raises ConfigError for a variable that is no setting."""
    known = {*setting_fields(), "model"}
    found = {}
    for variable, text in environ.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            if name not in known or variable != PREFIX + name.upper():
                raise ConfigError(f"{variable} is not a setting of systone")
            found[name] = text
    return found


def read_settings(
    flags: Mapping[str, str] | None = None,
    models: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Settings from the flags given, by setting name, and the environment (the process's own by
    default). Raises ConfigError."""
    texts = read_environment(os.environ if environ is None else environ)
    sources = list(models) or [s.strip() for s in texts.pop("model", "").split(",") if s.strip()]
    texts.pop("model", None)
    named = {name: (PREFIX + name.upper(), text) for name, text in texts.items()}
    for name, text in (flags or {}).items():
        named[name] = ("--" + name.replace("_", "-"), text)
    values = {name: _parsed(name, *pair) for name, pair in named.items()}
    model = _section(ModelSettings, values)
    engine = replace(_section(EngineConfig, values), model=model)
    chosen = [replace(model, source=source) for source in sources] or [model]
    return Settings(tuple(chosen), engine, _section(ServerConfig, values))


def _parsed(name: str, origin: str, text: str) -> Any:
    try:
        return setting_fields()[name].metadata["parse"](text)
    except ValueError as error:
        raise ConfigError(f"{origin}: {text!r} {_reason(error)}") from None


def _reason(error: ValueError) -> str:
    text = str(error)
    return text if text.startswith(("must", "an ")) else "is not a number"


def _section(section: type[T], values: Mapping[str, Any]) -> T:
    names = {f.name for f in fields(section)}  # type: ignore[arg-type]
    return section(**{name: value for name, value in values.items() if name in names})
