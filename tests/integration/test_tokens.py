"""Registration: one active token per device and per token, whoever logs in at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from consumer.tokens import register
from shared.adapters.mongo.tokens import TokenStore
from shared.domain import token_moves
from shared.domain.token_moves import Registration


def phone(user="u", device="d", token="ExponentPushToken[a]", **more):
    return Registration(user, device, token, more.get("platform", "ios"), more.get("project"))


@pytest.fixture
def store(db):
    return TokenStore(db)


@pytest.fixture
def tokens(db):
    return db["notification_tokens"]


def active(tokens, **where):
    return list(tokens.find({"isActive": True, **where}))


def at_once(count, act):
    start = threading.Barrier(count)

    def run(number):
        start.wait(20)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_a_first_registration(store, tokens):
    token_id = register(store, phone(project="@a/b"))
    (token,) = tokens.find()
    assert token["_id"] == token_id
    assert (token["userId"], token["deviceId"], token["token"]) == ("u", "d", "ExponentPushToken[a]")
    assert (token["platform"], token["project"], token["isActive"], token["failureCount"]) == ("ios", "@a/b", True, 0)
    assert abs(token["createdAt"] - datetime.now(UTC)) < timedelta(seconds=5)


def test_the_same_phone_again_is_the_same_registration(store, tokens):
    first = register(store, phone())
    before = tokens.find_one()
    assert register(store, phone(platform="android", project="p")) == first
    after = tokens.find_one()
    assert after["createdAt"] == before["createdAt"]
    assert after["lastSeenAt"] >= before["lastSeenAt"]
    assert (after["platform"], after["project"]) == ("android", "p")
    assert tokens.count_documents({}) == 1


@pytest.mark.parametrize(
    ("rival", "reason"),
    [
        (phone(user="other"), "replaced"),
        (phone(token="ExponentPushToken[old]"), "replaced"),
        (phone(device="elsewhere"), "moved"),
    ],
)
def test_a_new_registration_retires_its_rivals(store, tokens, rival, reason):
    old = register(store, rival)
    new = register(store, phone())
    assert [token["_id"] for token in active(tokens)] == [new]
    retired = tokens.find_one({"_id": old})
    assert (retired["retiredReason"], retired["isActive"]) == (reason, False)
    assert retired["retiredAt"] is not None


def test_two_rivals_at_once_are_both_retired(store, tokens):
    register(store, phone(device="d", token="ExponentPushToken[x]"))
    register(store, phone(device="e", token="ExponentPushToken[a]"))
    new = register(store, phone())
    assert [token["_id"] for token in active(tokens)] == [new]


def test_other_devices_of_the_user_stay(store, tokens):
    register(store, phone(device="tablet", token="ExponentPushToken[t]"))
    register(store, phone())
    assert len(active(tokens)) == 2


def test_logging_out_and_in_again_is_a_new_registration(store, tokens):
    first = register(store, phone())
    assert store.log_out("d") is True
    assert store.log_out("d") is False
    assert tokens.find_one({"_id": first})["retiredReason"] == "logged_out"
    assert register(store, phone()) != first
    assert len(active(tokens)) == 1


def test_ids_that_look_like_expressions_are_taken_literally(store, tokens):
    register(store, phone(user="$userId", device="$token"))
    register(store, phone(user="other", device="$token", token="ExponentPushToken[b]"))
    assert [token["userId"] for token in active(tokens)] == ["other"]
    assert tokens.find_one({"userId": "$userId"})["retiredReason"] == "replaced"


def test_ids_may_be_documents(store, tokens):
    register(store, phone(user={"a": 1}, device={"b": 2}))
    register(store, phone(user={"a": 2}, device={"b": 2}))
    assert [token["userId"] for token in active(tokens)] == [{"a": 2}]


def test_fifty_people_who_log_in_on_one_device_at_once_leave_one_active_token(db, tokens):
    ids = at_once(50, lambda n: TokenStore(db).register(phone(user=f"u{n}", token=f"ExponentPushToken[{n}]")))
    assert len(set(ids)) == 50
    assert len(active(tokens, deviceId="d")) == 1
    assert tokens.count_documents({}) == 50


def test_twenty_devices_that_bring_one_token_at_once_leave_one_active(db, tokens):
    at_once(20, lambda n: TokenStore(db).register(phone(device=f"d{n}")))
    assert len(active(tokens)) == 1


def test_one_phone_that_registers_twenty_times_at_once_is_registered_once(db, tokens):
    ids = at_once(20, lambda _: TokenStore(db).register(phone()))
    assert len(set(ids)) == 1
    assert len(active(tokens)) == 1


def test_two_phones_that_swap_their_tokens_at_once_end_with_one_each(db, tokens):
    names = ("x", "y")
    for _ in range(5):
        pairs = [(d, t) for d in names for t in names]
        at_once(
            4, lambda n, p=pairs: TokenStore(db).register(phone(device=p[n][0], token=f"ExponentPushToken[{p[n][1]}]"))
        )
        found = active(tokens)
        assert len({token["deviceId"] for token in found}) == len(found)
        assert len({token["token"] for token in found}) == len(found)
        assert found


# --- failures and death -----------------------------------------------------------------------------------------


def make(tokens, move):
    return tokens.update_many(move.where, move.update).modified_count


def test_failures_count_up_to_the_ceiling_and_retire_there(store, tokens):
    token_id = register(store, phone())
    for count in (1, 2):
        make(tokens, token_moves.count_failures(token_id, 1, 3))
        token = tokens.find_one()
        assert (token["failureCount"], token["isActive"], token["retiredReason"]) == (count, True, None)
    make(tokens, token_moves.count_failures(token_id, 1, 3))
    token = tokens.find_one()
    assert (token["failureCount"], token["isActive"], token["retiredReason"]) == (3, False, "repeated_failures")


def test_a_retired_token_keeps_the_reason_of_its_first_retirement(store, tokens):
    token_id = register(store, phone())
    store.log_out("d")
    before = tokens.find_one()
    make(tokens, token_moves.count_failures(token_id, 5, 3))
    make(tokens, token_moves.retire_dead(token_id, datetime.now(UTC) + timedelta(hours=1)))
    after = tokens.find_one()
    assert (after["retiredReason"], after["retiredAt"]) == (before["retiredReason"], before["retiredAt"])


@pytest.mark.parametrize(("seen_again", "retired"), [(timedelta(seconds=1), 0), (-timedelta(seconds=1), 1)])
def test_a_dead_token_is_retired_unless_the_phone_came_back_since(store, tokens, seen_again, retired):
    token_id = register(store, phone())
    asked = tokens.find_one()["lastSeenAt"] - seen_again
    assert make(tokens, token_moves.retire_dead(token_id, asked)) == retired
    assert len(active(tokens)) == 1 - retired


def test_a_token_written_by_others_without_bookkeeping_can_fail_and_die(tokens):
    tokens.insert_one({"_id": 1, "userId": "u", "deviceId": "d", "token": "ExponentPushToken[a]", "isActive": True})
    make(tokens, token_moves.count_failures(1, 1, 3))
    assert tokens.find_one()["failureCount"] == 1
    assert make(tokens, token_moves.retire_dead(1, datetime.now(UTC))) == 1


def test_a_confirmed_receipt_resets_the_count_of_these_tokens_only(store, tokens):
    mine, other = register(store, phone()), register(store, phone(device="e", token="ExponentPushToken[e]"))
    for token_id in (mine, other):
        make(tokens, token_moves.count_failures(token_id, 2, 3))
    make(tokens, token_moves.reset_failures([mine]))
    assert tokens.find_one({"_id": mine})["failureCount"] == 0
    assert tokens.find_one({"_id": other})["failureCount"] == 2
