"""Checks of schemathesis on each answer beside its own; loaded as its hooks."""

from typing import Any

import schemathesis

MEANT = {501, 503, 504, 507}
"""Not supported, not ready, waited in vain, no device memory: each with a code of the vendor."""


@schemathesis.check
def no_error_that_nobody_foresaw(
    _: object, response: schemathesis.Response, __: "schemathesis.Case[Any]"
) -> None:
    """An answer of 500 and more is one of those that the document means."""
    status = response.status_code
    assert status < 500 or status in MEANT, f"{status}: {response.text}"
    assert "Traceback" not in response.text
