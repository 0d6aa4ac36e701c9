"""Values of the REST API that are checked by rules of their own."""

import pytest
from pydantic import TypeAdapter, ValidationError

from opserve_server.rest_api.models import Texts

TEXTS: TypeAdapter[object] = TypeAdapter(Texts)


@pytest.mark.parametrize("given", [{}, {"a": "b"}, {"a": "b", "c": ""}])
def test_texts_by_name_are_taken(given: dict[str, str]) -> None:
    assert TEXTS.validate_python(given) == given


@pytest.mark.parametrize("given", [{"a": 1}, {"a": "b", "c": 1}, {"a": None}, ["a"], "a", None])
def test_values_that_are_not_texts_by_name_are_refused(given: object) -> None:
    with pytest.raises(ValidationError, match="texts by name"):
        TEXTS.validate_python(given)
