"""What an ordered fault makes of an answer."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from deploy.local.sandbox import answers
from deploy.local.sandbox.answers import Answer, Manner
from deploy.local.sandbox.fault_book import Struck
from deploy.local.sandbox.faults import Fault

_Parameters = dict[str, Any]


def answer_instead(struck: Struck, recipients: list[str]) -> Answer | None:
    """The answer that takes the request's place, if nothing of it is to be accepted."""
    if struck.order is None:
        return None
    build = _INSTEAD.get(struck.order.fault)
    answer = build(struck.order.parameters, recipients) if build else None
    return answer and replace(answer, delay=struck.delay_seconds)


def distort(struck: Struck, answer: Answer) -> Answer:
    """What is left of the answer to a request that was accepted."""
    if struck.order is not None:
        build = _AFTERWARDS.get(struck.order.fault)
        answer = build(struck.order.parameters, answer) if build else answer
    return replace(answer, delay=struck.delay_seconds)


def _hang_unaccepted(parameters: _Parameters, _: list[str]) -> Answer | None:
    return None if parameters["accepted"] else answers.cut(parameters["seconds"])


def _validation_error(parameters: _Parameters, _: list[str]) -> Answer:
    return answers.validation_error(f'"[{parameters["index"]}].{parameters["field"]}" must be of type object')


def _mixed(_: _Parameters, recipients: list[str]) -> Answer:
    # They do agree, else they had been refused before; two made-up projects share them out.
    halves = {"@sandbox/one": recipients[::2], "@sandbox/two": recipients[1::2]}
    return answers.too_many_experience_ids({project: half for project, half in halves.items() if half})


def _trickled(parameters: _Parameters, answer: Answer) -> Answer:
    return replace(answer, manner=Manner.TRICKLE, pause=parameters["ms"] / 1000)


def _miscounted(parameters: _Parameters, answer: Answer) -> Answer:
    tickets = json.loads(answer.body)["data"]
    tickets = tickets if isinstance(tickets, list) else [tickets]
    by = parameters["by"]
    return answers.data(tickets[:by] if by < 0 else tickets + tickets[-1:] * by)


_INSTEAD: Mapping[Fault, Callable[[_Parameters, list[str]], Answer | None]] = {
    Fault.RATE_LIMITED: lambda _, __: answers.too_many_requests("Too many recipients within a second."),
    Fault.SERVER_ERROR_BEFORE: lambda parameters, _: answers.html(parameters["status"]),
    Fault.UNAUTHORIZED: lambda _, __: answers.invalid_token(),
    Fault.FORBIDDEN: lambda _, __: answers.forbidden(),
    Fault.HANG: _hang_unaccepted,
    Fault.TOO_MANY_EXPERIENCE_IDS: _mixed,
    Fault.VALIDATION_ERROR: _validation_error,
}

_AFTERWARDS: Mapping[Fault, Callable[[_Parameters, Answer], Answer]] = {
    Fault.SERVER_ERROR_AFTER: lambda parameters, _: answers.html(parameters["status"]),
    Fault.CLOSE_AFTER: lambda _, __: answers.cut(),
    Fault.HANG: lambda parameters, _: answers.cut(parameters["seconds"]),
    Fault.TRICKLE: _trickled,
    Fault.WRONG_TICKET_COUNT: _miscounted,
    Fault.NOT_JSON: lambda _, __: answers.html(200),
    Fault.NULL_BODY: lambda _, __: answers.plain_json(200, None),
}
