import re
from pathlib import Path

import pytest

from deploy.local.sandbox.fault_book import FaultBook
from deploy.local.sandbox.faults import PER_RECIPIENT, Fault, On, OrdersError, parameters_of, read_orders

_PAGE = Path(__file__).parents[2] / "docs" / "sandbox.md"


def _book(*orders, now=0.0):
    book = FaultBook()
    book.replace(read_orders(list(orders)), now)
    return book


def test_the_page_lists_every_fault_with_its_own_parameters():
    rows = re.findall(r"^\| `(\w+)`( ●)? \| [^|]* \| ([^|]*)\|$", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    told = {
        name: (bool(dot), set(re.findall(r"`(\w+)`", parameters.replace("(`data`)", ""))))
        for name, dot, parameters in rows
    }

    assert told == {fault: (fault in PER_RECIPIENT, set(parameters_of(fault))) for fault in Fault}


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        ("hang", "[0] must be an object"),
        ({}, "[0].fault cannot be None"),
        ({"fault": "server_eror_after"}, "did you mean server_error_after?"),
        ({"fault": ["hang"]}, "[0].fault cannot be"),
        ({"fault": "hang", "tims": 3}, "[0].tims is not known for hang; did you mean times?"),
        ({"fault": "hang", "times": 0}, "[0].times must be a whole number"),
        ({"fault": "hang", "times": True}, "[0].times must be a whole number"),
        ({"fault": "hang", "share": 1.5}, "[0].share must be a number above 0"),
        ({"fault": "hang", "share": None}, "[0].share must be a number above 0"),
        ({"fault": "hang", "tokens": []}, "[0].tokens must be a list"),
        ({"fault": "hang", "tokens": "x"}, "[0].tokens must be a list"),
        ({"fault": "hang", "for_seconds": float("inf")}, "[0].for_seconds must be a number"),
        ({"fault": "hang", "on": "both"}, "[0].on must be one of send, receipts, any"),
        ({"fault": "hang", "on": ["send"]}, "[0].on must be one of send, receipts, any"),
        ({"fault": "hang", "status": 500}, "[0].status is not known for hang"),
        (
            {"fault": "server_error_before", "status": 404},
            "[0].status must be an HTTP status from 500 to 599",
        ),
        ({"fault": "ticket_error"}, "[0].error is required"),
        ({"fault": "receipt_delayed"}, "[0].seconds is required"),
        ({"fault": "delay"}, "[0].ms is required"),
        ({"fault": "delay", "ms": -1}, "[0].ms must be milliseconds"),
        (
            {"fault": "ticket_error", "error": "X", "on": "any"},
            "[0].on: ticket_error is for send requests only",
        ),
        ({"fault": "refuse", "tokens": ["t"]}, "[0].tokens: no recipients are known"),
        ({"fault": "rate_limited", "tokens": ["t"], "on": "receipts"}, "[0].tokens: no recipients are known"),
    ],
)
def test_a_bad_order_is_named(order, complaint):
    with pytest.raises(OrdersError) as caught:
        read_orders([order])

    assert complaint in str(caught.value)


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_can_be_ordered_with_no_more_than_what_it_requires(fault):
    required = {"error": "X"} if "error" in parameters_of(fault) else {}
    required |= {"ms": 1} if fault is Fault.DELAY else {}
    required |= {"seconds": 1} if fault is Fault.RECEIPT_DELAYED else {}

    (order,) = read_orders([{"fault": fault, **required}])

    assert order.fault is fault
    assert order.parameters.keys() == parameters_of(fault)


def test_times_limits_the_requests_struck():
    book = _book({"fault": "rate_limited", "times": 2})

    assert [book.strike_request(On.SEND, ["t"], 0.0).fault for _ in range(3)] == [
        "rate_limited",
        "rate_limited",
        None,
    ]
    assert book.describe()[0]["fired"] == 2


def test_for_seconds_ends_by_the_clock():
    book = _book({"fault": "hang", "for_seconds": 5}, now=100.0)

    assert book.strike_request(On.SEND, [], 104.9).fault is Fault.HANG
    assert book.strike_request(On.SEND, [], 105.0).fault is None


def test_an_order_strikes_only_the_requests_it_is_for():
    book = _book({"fault": "null_body", "on": "receipts"}, {"fault": "not_json", "tokens": ["a"]})

    assert book.strike_request(On.RECEIPTS, [], 0.0).fault is Fault.NULL_BODY
    assert book.strike_request(On.SEND, ["b"], 0.0).fault is None
    assert book.strike_request(On.SEND, ["b", "a"], 0.0).fault is Fault.NOT_JSON


def test_the_first_deciding_fault_wins_and_delays_add_up():
    book = _book({"fault": "delay", "ms": 40}, {"fault": "hang"}, {"fault": "delay", "ms": 2}, {"fault": "null_body"})

    struck = book.strike_request(On.SEND, [], 0.0)

    assert struck.fault is Fault.HANG
    assert struck.delay_seconds == pytest.approx(0.042)
    assert struck.names == ["delay", "hang", "delay"]
    assert [order["fired"] for order in book.describe()] == [1, 1, 1, 0]


def test_a_share_of_recipients_is_the_same_at_every_attempt_and_differs_by_seed():
    def struck_by(seed):
        book = _book({"fault": "receipt_missing", "share": 0.2, "seed": seed})
        return {n for n in range(5000) if book.for_recipients(0.0).strike("t", f"m{n}")}

    first = struck_by(1)

    assert first == struck_by(1)
    assert 850 < len(first) < 1150
    assert len(first & struck_by(2)) < 300


def test_a_share_of_requests_lets_a_retry_pass():
    book = _book({"fault": "server_error_after", "share": 0.5, "seed": 3})

    fates = [book.strike_request(On.SEND, ["the same"], 0.0).fault for _ in range(400)]

    assert 150 < fates.count(Fault.SERVER_ERROR_AFTER) < 250


def test_times_counts_requests_and_recipients_apart():
    book = _book({"fault": "ticket_error", "error": "ExpoError", "times": 1, "tokens": ["a", "b"]})

    request = book.for_recipients(0.0)
    hits = [bool(request.strike(token, None)) for token in ("a", "b", "c")]

    assert hits == [True, True, False]
    assert request.names == ["ticket_error"]
    assert not book.for_recipients(0.0)
    assert (book.describe()[0]["fired"], book.describe()[0]["recipients"]) == (1, 2)
