"""Errors travel between processes: of every class, with every member."""

import pickle

import pytest

from opserve_client.errors import ErrorFields, ExecutionFailed, OpserveError, error_for
from opserve_kernels.status import Status

MEMBERS = ErrorFields(name="NAME", parameter="groups", given="0", allowed="1", request_id="one")


@pytest.mark.parametrize(
    ("code", "domain"),
    [
        (161002, "opserve"),
        (107017, "opserve"),
        (Status.ACL_ERROR_RT_SOCKET_CLOSE, "opserve"),
        (Status.ACL_ERROR_RT_WAIT_TIMEOUT, "opserve"),
        (60011, "opserve.tbe"),
        (2, "opserve.ft_dsp"),
    ],
)
def test_an_error_is_the_same_after_a_journey(code: int, domain: str) -> None:
    error = error_for("a message", code=code, domain=domain, **MEMBERS)

    again: OpserveError = pickle.loads(pickle.dumps(error))  # noqa: S301  our own

    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert again.args == error.args
    assert str(again) == str(error)


def test_a_failed_execution_keeps_its_executor() -> None:
    error = error_for("a message", code=507015, executor=7, name="AICORE")

    again: OpserveError = pickle.loads(pickle.dumps(error))  # noqa: S301  our own

    assert isinstance(again, ExecutionFailed)
    assert again.executor == 7
