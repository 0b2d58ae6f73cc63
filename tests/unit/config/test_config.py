from dataclasses import fields

import pytest

from systone.config import (
    EngineConfig,
    ModelSettings,
    ServerConfig,
    read_environment,
    read_settings,
    setting_fields,
    setting_text,
)
from systone.errors import ConfigError
from systone.schedule.budget import Budget

# A text that is not the default and the value it means, for every setting there is.
TEXTS = {
    "policy": ("shared", "shared"),
    "pack": ("off", False),
    "max_batch_tokens": ("2048", 2048),
    "max_batch_rows": ("64", 64),
    "max_batch_states": ("32", 32),
    "max_batch_requests": ("8", 8),
    "graph_tokens": ("2048", 2048),
    "max_whole_s": ("0.03", 0.03),
    "max_length": ("16384", 16384),
    "base": ("some/dir", "some/dir"),
    "merge": ("single-rounding", "single-rounding"),
    "truncation": ("keep-head", "keep-head"),
    "date_facts": ("on", True),
    "preset": ("onejev", "onejev"),
    "readout": ("statement", "statement"),
    "orders": ("reverse", "reverse"),
    "device": ("cuda:1", "cuda:1"),
    "dtype": ("float32", "float32"),
    "max_queue": ("7", 7),
    "workers": ("3", 3),
    "max_batch_s": ("12.5", 12.5),
    "quantum_s": ("0.05", 0.05),
    "drain_s": ("0", 0.0),
    "warmup": ("off", False),
    "jev_aliases": ("off", False),
    "switch_interval_s": ("0.001", 0.001),
    "awake_s": ("0.01", 0.01),
    "host": ("0.0.0.0", "0.0.0.0"),
    "port": ("0", 0),
    "dialect": ("jev-exact", "jev-exact"),
    "api_key": ("one, two", ("one", "two")),
    "max_body_bytes": ("2048", 2048),
    "deadline_s": ("none", None),
    "strict": ("on", True),
    "extras": ("on", True),
    "access_log": ("on", True),
    "log_level": ("debug", "debug"),
    "backlog": ("16", 16),
    "keep_alive_s": ("5", 5),
}
WRONG = {
    "policy": "always",
    "pack": "yes",
    "max_batch_tokens": "0",
    "max_batch_rows": "many",
    "graph_tokens": "32",
    "max_whole_s": "0",
    "max_length": "1.5",
    "merge": "triple",
    "truncation": "middle",
    "readout": "logits",
    "orders": "shuffle",
    "device": "gpu",
    "dtype": "float64",
    "max_queue": "-1",
    "workers": "65",
    "max_batch_s": "0",
    "quantum_s": "nan",
    "drain_s": "-1",
    "switch_interval_s": "5",
    "awake_s": "-1",
    "port": "65536",
    "dialect": "openai",
    "api_key": "one,,two",
    "max_body_bytes": "10",
    "deadline_s": "0",
    "extras": "1",
    "log_level": "loud",
    "keep_alive_s": "0",
}


def value_of(name: str, settings: object) -> object:
    for section in (settings.models[0], settings.engine, settings.server):
        if name in {f.name for f in fields(section)}:
            return getattr(section, name)
    raise AssertionError(name)


def test_every_setting_is_listed_here() -> None:
    assert set(TEXTS) == set(setting_fields())


@pytest.mark.parametrize("name", TEXTS)
def test_each_setting_is_read_from_a_flag_and_from_the_environment(name) -> None:
    text, value = TEXTS[name]
    extra = {"policy": "off"} if name == "pack" else {}
    assert value_of(name, read_settings({name: text, **extra}, environ={})) == value
    variable = {f"SYSTONE_{name.upper()}": text}
    assert value_of(name, read_settings(extra, environ=variable)) == value
    default = setting_fields()[name].default
    assert value_of(name, read_settings({}, environ={})) == default != value


def test_a_flag_wins_over_the_environment() -> None:
    settings = read_settings({"port": "1"}, environ={"SYSTONE_PORT": "2", "HOME": "x"})
    assert settings.server.port == 1


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_names_its_flag_or_variable_in_one_line(name) -> None:
    flag = "--" + name.replace("_", "-")
    variable = f"SYSTONE_{name.upper()}"
    for origin, flags, environ in (
        (flag, {name: WRONG[name]}, {}),
        (variable, {}, {variable: WRONG[name]}),
    ):
        with pytest.raises(ConfigError) as caught:
            read_settings(flags, environ=environ)
        message = str(caught.value)
        assert message.startswith(origin + ":")
        assert "\n" not in message


@pytest.mark.parametrize("variable", ["SYSTONE_NO_SUCH", "SYSTONE_port", "SYSTONE_"])
def test_an_unknown_variable_is_refused(variable) -> None:
    with pytest.raises(ConfigError, match=variable):
        read_environment({variable: "1"})


def test_models_come_from_flags_or_else_the_environment() -> None:
    environ = {"SYSTONE_MODEL": "a, b"}
    assert [m.source for m in read_settings(environ=environ).models] == ["a", "b"]
    assert [m.source for m in read_settings({}, ["c"], environ).models] == ["c"]
    assert [m.source for m in read_settings(environ={}).models] == ["systone-mini"]
    both = read_settings({"device": "cpu"}, ["c", "d"], {})
    assert [(m.source, m.device) for m in both.models] == [("c", "cpu"), ("d", "cpu")]
    assert both.engine.model.device == "cpu"


@pytest.mark.parametrize("policy", ["fixed", "shared", "auto"])
def test_pack_off_contradicts_every_policy_that_shares_or_proves(policy) -> None:
    with pytest.raises(ConfigError, match=f"--pack off .*{policy}"):
        read_settings({"pack": "off", "policy": policy}, environ={})


def test_pack_off_turns_sharing_off_and_batches_to_one() -> None:
    off = ModelSettings(pack=False)
    assert off.effective_policy == "off"
    assert off.budget.requests == 1
    on = ModelSettings(policy="shared", max_batch_tokens=10, max_batch_requests=4)
    assert on.effective_policy == "shared"
    assert on.budget == Budget(tokens=10, rows=1024, states=256, requests=4)


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        (ModelSettings, {"policy": "always"}),
        (ModelSettings, {"max_batch_tokens": 0}),
        (ModelSettings, {"pack": "off"}),
        (EngineConfig, {"max_queue": -1}),
        (EngineConfig, {"max_queue": 2.5}),
        (ServerConfig, {"dialect": "other"}),
        (ServerConfig, {"port": 70_000}),
        (ServerConfig, {"api_key": ("",)}),
    ],
)
def test_values_given_in_python_are_checked_too(section, wrong) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        section(**wrong)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "on"), (False, "off"), (None, "none"), (("a", "b"), "a,b"), (3, "3")]
)
def test_a_value_is_shown_as_it_would_be_given(value, text) -> None:
    assert setting_text(value) == text
