"""Conformance: whether outputs that another implementation computed are right."""

from collections.abc import Mapping

from numpy.typing import ArrayLike

from opserve.v1 import conformance_service_pb2 as conformance
from opserve_client._async.connection import AsyncConnection
from opserve_client.array_files import packed, unpacked
from opserve_client.request_forms import named, request_of
from opserve_client.tensors import Array
from opserve_client.wire import conformance_methods as methods
from opserve_client.wire.methods import RequestT

_PAGE = 1000


class AsyncConformance:
    """Cases, what must come of them, and verdicts; see AsyncClient.conformance.

    A case is named by its id in a suite, "smoke", "standard" or "exhaustive", that a seed makes.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list_suites(self) -> list[conformance.Suite]:
        """The suites that the operators' contracts make."""
        request = conformance.ListSuitesRequest()
        return list((await self._connection.call(methods.LIST_SUITES, request)).suites)

    async def list_cases(
        self, suite: str = "standard", *, seed: int = 0, operator: str = "", match: str = ""
    ) -> list[conformance.CaseInfo]:
        """Cases of a suite, in its order.

        Args:
            suite: Its name.
            seed: Of the shapes that are drawn.
            operator: Only cases of this one; "" means all.
            match: Only cases whose id, source or tag is like it (*, ?); "" means all.
        """
        request = request_of(
            conformance.ListCasesRequest,
            suite=named(suite, parameter="suite"),
            seed=seed,
            operator=operator,
            match=match,
            limit=_PAGE,
        )
        cases: list[conformance.CaseInfo] = []
        while True:
            page = await self._connection.call(methods.LIST_CASES, request)
            cases += page.cases
            if not page.cursor:
                return cases
            request.cursor = page.cursor

    async def get_case(self, case: str, *, suite: str = "standard", seed: int = 0) -> str:
        """The line of JSON that a suite has of a case."""
        request = _of_case(conformance.GetCaseRequest, case, suite=suite, seed=seed)
        return (await self._connection.call(methods.GET_CASE, request)).definition

    async def get_inputs(
        self, case: str, *, suite: str = "standard", seed: int = 0
    ) -> dict[str, Array]:
        """The inputs of a case; bits of BF16 are uint16."""
        request = _of_case(conformance.GetInputsRequest, case, suite=suite, seed=seed)
        return unpacked(await self._connection.archive(methods.GET_INPUTS, request))

    async def get_golden(
        self, case: str, *, suite: str = "standard", seed: int = 0
    ) -> dict[str, Array]:
        """What each output must be, "values.NAME", and "magnitudes.NAME" of its sums, float64."""
        request = _of_case(conformance.GetGoldenRequest, case, suite=suite, seed=seed)
        return unpacked(await self._connection.archive(methods.GET_GOLDEN, request))

    async def verify(
        self,
        case: str,
        outputs: Mapping[str, ArrayLike],
        *,
        suite: str = "standard",
        seed: int = 0,
        code: str = "",
    ) -> conformance.VerifyResponse:
        """The verdict on outputs of a case.

        Args:
            case: Its id.
            outputs: By name; those that are missing were not written.
            suite: That has it.
            seed: That the inputs were drawn by.
            code: The status that the call was refused with, its name or number; "" if it was not.

        Raises:
            AclrtError: 107017, the suite has no such case; 207012, it is too large for the service.
        """
        request = _of_case(conformance.VerifyRequest, case, suite=suite, seed=seed, code=code)
        return await self._connection.verify(request, packed(outputs))


def _of_case(kind: type[RequestT], case: str, *, suite: str, **others: object) -> RequestT:
    return request_of(
        kind,
        suite=named(suite, parameter="suite"),
        case=named(case, parameter="case"),
        **others,
    )
