import os
from datetime import timedelta

import pytest

from shared.domain.policy import CategoryPolicy
from shared.runtime.settings import (
    MARK_MARGIN_SECONDS,
    PREFIX,
    BadSettings,
    BrokerAddress,
    Settings,
    load_settings,
    parse_broker_addresses,
)

URL = "mongodb://someone:hush@127.0.0.1/"


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith(PREFIX):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PUNKTLIG_MONGO_URL", URL)


def load(monkeypatch, **variables):
    for name, value in variables.items():
        monkeypatch.setenv(f"PUNKTLIG_{name}", value)
    return load_settings()


def test_only_the_database_must_be_named(monkeypatch):
    settings = load_settings()
    assert settings.mongo_url.get_secret_value() == URL
    assert (settings.mongo_db, settings.expo_url, settings.batch_size) == ("punktlig", "https://exp.host", 100)
    assert (settings.claim_seconds, settings.request_timeout, settings.max_attempts) == (60, 30, 5)
    monkeypatch.delenv("PUNKTLIG_MONGO_URL")
    with pytest.raises(BadSettings, match=r"^PUNKTLIG_MONGO_URL: must be set$"):
        load_settings()


def test_an_empty_variable_is_as_if_not_set(monkeypatch):
    assert load(monkeypatch, BATCH_SIZE="", STOMP_URLS="").batch_size == 100


BAD = {
    "MONGO_URL": ["localhost", "http://x", "mongodb"],
    "STOMP_URLS": [
        "localhost:61613",
        "tcp://x:1",
        "stomp://",
        "stomp://x:1,",
        "stomp://x:1,http://y",
        "stomp://x:99999",
        "stomp://x:abc",
        "stomp://me:secret@x:1",
    ],
    "EXPO_URL": ["exp.host", "ftp://exp.host", "https://", "https://exp.host/--/api"],
    "CATEGORIES": ["meal,meal", "meal,", ",", "meal,a/b", "meal,a.b", "meal,ö", "a b", "-"],
    "CATEGORY_POLICY": [
        "{",
        "[]",
        "5",
        '{"meal": 5}',
        '{"lunch": {}}',
        '{"meal": {"grace": 5}}',
        '{"meal": {"grace_seconds": 0}}',
        '{"meal": {"grace_seconds": -1}}',
        '{"meal": {"grace_seconds": Infinity}}',
        '{"meal": {"grace_seconds": 1e300}}',
        '{"meal": {"on_unknown": "resend"}}',
        '{"meal": {"priority": "urgent"}}',
        '{"meal": {"interruption_level": "loud"}}',
    ],
    "BATCH_SIZE": ["0", "101", "-1", "1.5", "many"],
    "EXPO_CONNECTIONS": ["0", "x"],
    "MAX_ATTEMPTS": ["0", "x"],
    "FAILURE_CEILING": ["0", "x"],
    "MASS_RETIRE_SHARE": ["0", "1.1", "-1", "nan"],
    "MASS_RETIRE_MINIMUM": ["0"],
    "RETENTION_DAYS": ["0", "x", "1.5"],
    "HTTP_PORT": ["-1", "65536", "x"],
    "LOG_FORMAT": ["xml", "JSON "],
    "EXPO_RATE_PER_SECOND": ["0", "-1", "x", "nan"],
    "CLAIM_SECONDS": ["0", "5", "nan"],
    "EXPO_TIMEOUT_SECONDS": ["0", "-1", "x", "nan"],
    **{
        name: ["0", "-1", "x", "nan", "inf", "1e300"]
        for name in (
            "HORIZON_HOURS",
            "GRACE_SECONDS",
            "BACKSTOP_SECONDS",
            "BROKER_WINDOW_SECONDS",
            "RECEIPT_DELAY_SECONDS",
            "RECEIPT_GIVE_UP_SECONDS",
            "DRAIN_SECONDS",
        )
    },
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_bad_value_is_one_line_that_names_its_variable(monkeypatch, name, value):
    with pytest.raises(BadSettings) as caught:
        load(monkeypatch, **{name: value})
    line = str(caught.value)
    assert line.startswith(f"PUNKTLIG_{name}")
    assert "\n" not in line
    assert len(line) < 400


@pytest.mark.parametrize("value", ["5000000", "1000000000000"])
def test_a_retention_that_no_calendar_holds_is_refused(monkeypatch, value):
    with pytest.raises(BadSettings, match=r"^PUNKTLIG_RETENTION_DAYS"):
        load(monkeypatch, RETENTION_DAYS=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("MONGO_URL", "http://user:hush@x"), ("STOMP_URLS", "stomp://me:hush@x:1"), ("EXPO_URL", "https://a:hush@x/y")],
)
def test_a_refusal_repeats_no_secret(monkeypatch, name, value):
    with pytest.raises(BadSettings) as caught:
        load(monkeypatch, **{name: value})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("PUNKTLIG_MONGO_URI", "PUNKTLIG_MONGO_URL"),
        ("PUNKTLIG_STOMP_URL", "PUNKTLIG_STOMP_URLS"),
        ("PUNKTLIG_GRACE", "PUNKTLIG_GRACE_SECONDS"),
        ("punktlig_batchsize", "PUNKTLIG_BATCH_SIZE"),
    ],
)
def test_an_unknown_variable_stops_the_start_with_a_suggestion(monkeypatch, wrong, right):
    monkeypatch.setenv(wrong, "x")
    with pytest.raises(BadSettings) as caught:
        load_settings()
    assert str(caught.value).startswith(f"{wrong}: ")
    assert f"did you mean {right}?" in str(caught.value)


def test_an_unknown_variable_like_nothing_has_no_suggestion(monkeypatch):
    monkeypatch.setenv("PUNKTLIG_QQQQQQQQQQQQQQQQQQQQQQQQ", "x")
    with pytest.raises(BadSettings) as caught:
        load_settings()
    assert str(caught.value) == "PUNKTLIG_QQQQQQQQQQQQQQQQQQQQQQQQ: no such setting"


def test_variables_of_others_are_none_of_our_business(monkeypatch):
    monkeypatch.setenv("PUNKT", "x")
    monkeypatch.setenv("OTHER_PUNKTLIG_X", "x")
    load_settings()


@pytest.mark.parametrize("field", ["mongo_url", "stomp_passcode", "expo_access_token"])
def test_secrets_do_not_show(monkeypatch, field):
    value = "mongodb://a:hush@x/" if field == "mongo_url" else "hush"
    settings = load(monkeypatch, **{field.upper(): value})
    assert "hush" not in repr(settings)
    assert "hush" not in str(settings.model_dump())


def test_settings_do_not_change():
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.batch_size = 5


def test_a_fail_over_list_of_brokers():
    assert parse_broker_addresses("stomp://a:1, stomp+ssl://b ,stomp://c") == (
        BrokerAddress("a", 1, tls=False),
        BrokerAddress("b", 61614, tls=True),
        BrokerAddress("c", 61613, tls=False),
    )
    assert parse_broker_addresses("stomp://[::1]:7")[0] == BrokerAddress("::1", 7, tls=False)


def test_policies_are_filled_up_from_the_defaults(monkeypatch):
    settings = load(
        monkeypatch,
        GRACE_SECONDS="600",
        CATEGORIES="meal,safety",
        CATEGORY_POLICY='{"safety": {"grace_seconds": 60, "on_unknown": "give_up", "sound": null}}',
    )
    assert settings.policies["meal"] == CategoryPolicy(timedelta(seconds=600))
    assert settings.policies["safety"] == CategoryPolicy(timedelta(seconds=60), on_unknown="give_up", sound=None)
    assert settings.policies["meal"].max_unresolved == 1
    assert settings.policies["safety"].max_unresolved == 0


def test_safety_breaks_through_by_default(monkeypatch):
    policy = load_settings().policies["safety"]
    assert (policy.ignore_allowed_hours, policy.priority, policy.interruption_level) == (True, "high", "time-sensitive")
    assert set(load(monkeypatch, CATEGORIES="meal").policies) == {"meal"}


@pytest.mark.parametrize("claim", ["7", "10", "30", "45", "60", "600"])
def test_the_requests_own_time_out_always_fits_the_claim(monkeypatch, claim):
    settings = load(monkeypatch, CLAIM_SECONDS=claim)
    assert 1 <= settings.request_timeout <= 30
    assert settings.claim_seconds >= settings.request_timeout + MARK_MARGIN_SECONDS


def test_a_time_out_that_is_asked_for_is_taken(monkeypatch):
    assert load(monkeypatch, EXPO_TIMEOUT_SECONDS="12.5").request_timeout == 12.5


def test_a_claim_that_does_not_cover_a_request_names_both(monkeypatch):
    with pytest.raises(BadSettings) as caught:
        load(monkeypatch, CLAIM_SECONDS="30", EXPO_TIMEOUT_SECONDS="26")
    assert "PUNKTLIG_CLAIM_SECONDS" in str(caught.value)
    assert "PUNKTLIG_EXPO_TIMEOUT_SECONDS" in str(caught.value)


@pytest.mark.parametrize(("claim", "time_out"), [("10", "5"), ("11", "5.5"), ("35.9", "30"), ("6.5", "")])
def test_a_claim_that_no_mark_could_ever_use_is_refused(monkeypatch, claim, time_out):
    """A request's mark needs more of the lease than time-out and margin: with just their sum nothing is ever sent."""
    with pytest.raises(BadSettings, match="PUNKTLIG_CLAIM_SECONDS"):
        load(monkeypatch, CLAIM_SECONDS=claim, EXPO_TIMEOUT_SECONDS=time_out)


@pytest.mark.parametrize(("claim", "time_out"), [("7", ""), ("7.1", ""), ("11", "5"), ("36", "30"), ("36.1", "")])
def test_what_is_accepted_leaves_time_between_claim_and_mark(monkeypatch, claim, time_out):
    settings = load(monkeypatch, CLAIM_SECONDS=claim, EXPO_TIMEOUT_SECONDS=time_out)
    assert settings.claim_seconds - settings.request_timeout - MARK_MARGIN_SECONDS >= 1


def test_an_address_ends_without_a_slash(monkeypatch):
    assert load(monkeypatch, EXPO_URL="http://127.0.0.1:9/").expo_url == "http://127.0.0.1:9"


def test_every_setting_but_the_database_has_a_default():
    needed = [name for name, field in Settings.model_fields.items() if field.is_required()]
    assert needed == ["mongo_url"]
