"""A running call of conformance by an unauthenticated caller."""

from collections.abc import Generator

import pytest

from opserve_server.core.observations import CALL, Call
from opserve_server.core.principal import LOCAL


@pytest.fixture
def at_work() -> Generator[None]:
    call = Call(api="grpc", method="Verify", request_id="r", headers={}, principal=LOCAL)
    token = CALL.set(call)
    yield
    CALL.reset(token)
