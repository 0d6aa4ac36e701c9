"""Long answers end without a word when their caller may not have them any more."""

from collections.abc import AsyncGenerator

import pytest

from opserve_server.core.errors import OpserveError, TooManyGuesses, Unauthenticated
from opserve_server.rest_api.doors import until_refused


@pytest.mark.parametrize(
    "refused", [Unauthenticated("its key has ended"), TooManyGuesses("here", per_s=1.0)]
)
async def test_what_came_before_is_all_there_is(refused: OpserveError) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        yield b"before"
        raise refused

    assert [chunk async for chunk in until_refused(chunks())] == [b"before"]
