"""Dead phones, tired phones and phones that change hands."""

from consumer.tokens import register
from shared.adapters.mongo.client import connect
from shared.adapters.mongo.tokens import TokenStore
from shared.domain.token_moves import Registration
from tests.acceptance.world import World, soon


def _send_all(world: World) -> None:
    world.ok("creator relay --once")
    world.ok("consumer send --once", RECEIPT_DELAY_SECONDS="0.1")
    world.ok("consumer receipts --once", RECEIPT_DELAY_SECONDS="0.1")


def test_a_device_that_is_gone_is_retired_at_once_by_ticket_or_receipt(world: World) -> None:
    for name in ("well", "ticket", "receipt"):
        world.user(name)
        world.row(name, soon(-1))
    world.sandbox.set_devices(
        {"ExponentPushToken[ticket]": {"state": "unregistered"}, "ExponentPushToken[receipt]": {"state": "gone"}}
    )
    _send_all(world)
    assert world.outcomes() == {
        "well": ("success", "confirmed"),
        "ticket": ("failed", "device_not_registered"),
        "receipt": ("failed", "device_not_registered"),
    }
    tokens = {token["userId"]: (token["isActive"], token.get("retiredReason")) for token in world.tokens.find()}
    assert tokens == {
        "well": (True, None),
        "ticket": (False, "device_not_registered"),
        "receipt": (False, "device_not_registered"),
    }


def test_three_device_failures_in_a_row_retire_and_a_confirmed_receipt_starts_anew(world: World) -> None:
    world.user("tired")
    world.user("moody")
    for turn, moody_fails in enumerate((True, True, False, True, True)):
        for name in ("tired", "moody"):
            if turn < 3 or name == "moody":
                world.row(name, soon(-1), label=f"turn{turn}")
        failing = ["ExponentPushToken[tired]"] + (["ExponentPushToken[moody]"] if moody_fails else [])
        world.sandbox.faults([{"fault": "ticket_error", "error": "SomethingNew", "tokens": failing}])
        _send_all(world)
    counts = {token["userId"]: (token["isActive"], token["failureCount"]) for token in world.tokens.find()}
    assert counts == {"tired": (False, 3), "moody": (True, 2)}


def test_a_mass_of_dead_devices_is_not_believed(world: World) -> None:
    due = soon(-1)
    for number in range(40):
        world.user(f"p{number}")
        world.row(f"p{number}", due)
    world.sandbox.faults([{"fault": "ticket_error", "error": "DeviceNotRegistered"}])
    _send_all(world)
    assert set(world.outcomes().values()) == {("failed", "device_not_registered")}
    assert world.tokens.count_documents({"isActive": True, "failureCount": 0}) == 40


def test_a_phone_that_logs_in_anew_gets_what_was_planned_for_its_old_token(world: World) -> None:
    world.user("anna")
    world.user("bert")
    world.row("anna", soon(-1))
    world.row("bert", soon(-1))
    database = connect(world.settings["PUNKTLIG_MONGO_URL"], world.settings["PUNKTLIG_MONGO_DB"], "test")
    store = TokenStore(database)
    register(store, Registration("anna", "d-anna", "ExponentPushToken[new]", "ios"))
    register(store, Registration("carl", "d-bert", "ExponentPushToken[bert]", "ios"))
    database.client.close()
    _send_all(world)
    assert world.outcomes() == {"anna": ("success", "confirmed"), "bert": ("is_missed", "superseded")}
    assert world.arrivals() == {"ExponentPushToken[new]": 1}
