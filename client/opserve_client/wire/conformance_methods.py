"""Calls of conformance: messages and RPCs, in one table."""

from typing import Any, TypeVar

from opserve.v1 import conformance_service_pb2 as conformance
from opserve_client.wire.methods import Method

ArchiveT = TypeVar("ArchiveT", conformance.GetInputsResponse, conformance.GetGoldenResponse)
"""A piece of an .npz file."""

LIST_SUITES = Method(
    "ConformanceService/ListSuites",
    conformance.ListSuitesRequest,
    conformance.ListSuitesResponse,
)
LIST_CASES = Method(
    "ConformanceService/ListCases",
    conformance.ListCasesRequest,
    conformance.ListCasesResponse,
)
GET_CASE = Method(
    "ConformanceService/GetCase",
    conformance.GetCaseRequest,
    conformance.GetCaseResponse,
)
READ_CASES = Method(
    "ConformanceService/ReadCases",
    conformance.ReadCasesRequest,
    conformance.ReadCasesResponse,
)
GET_INPUTS = Method(
    "ConformanceService/GetInputs",
    conformance.GetInputsRequest,
    conformance.GetInputsResponse,
)
GET_GOLDEN = Method(
    "ConformanceService/GetGolden",
    conformance.GetGoldenRequest,
    conformance.GetGoldenResponse,
)
SUBMIT_OUTPUTS = Method(
    "ConformanceService/SubmitOutputs",
    conformance.SubmitOutputsRequest,
    conformance.SubmitOutputsResponse,
)
VERIFY = Method(
    "ConformanceService/Verify",
    conformance.VerifyRequest,
    conformance.VerifyResponse,
)
RUN_SUITE = Method(
    "ConformanceService/RunSuite",
    conformance.RunSuiteRequest,
    conformance.RunSuiteResponse,
)
GET_RUN = Method(
    "ConformanceService/GetRun",
    conformance.GetRunRequest,
    conformance.GetRunResponse,
)
CANCEL_RUN = Method(
    "ConformanceService/CancelRun",
    conformance.CancelRunRequest,
    conformance.CancelRunResponse,
)
LIST_RUNS = Method(
    "ConformanceService/ListRuns",
    conformance.ListRunsRequest,
    conformance.ListRunsResponse,
)
LIST_RESULTS = Method(
    "ConformanceService/ListResults",
    conformance.ListResultsRequest,
    conformance.ListResultsResponse,
)
REPORT_RUN = Method(
    "ConformanceService/ReportRun",
    conformance.ReportRunRequest,
    conformance.ReportRunResponse,
)
SET_BASELINE = Method(
    "ConformanceService/SetBaseline",
    conformance.SetBaselineRequest,
    conformance.SetBaselineResponse,
)
LIST_BASELINES = Method(
    "ConformanceService/ListBaselines",
    conformance.ListBaselinesRequest,
    conformance.ListBaselinesResponse,
)
DELETE_BASELINE = Method(
    "ConformanceService/DeleteBaseline",
    conformance.DeleteBaselineRequest,
    conformance.DeleteBaselineResponse,
)
COMPARE_RUNS = Method(
    "ConformanceService/CompareRuns",
    conformance.CompareRunsRequest,
    conformance.CompareRunsResponse,
)

CONFORMANCE_METHODS: tuple[Method[Any, Any], ...] = (
    LIST_SUITES,
    LIST_CASES,
    GET_CASE,
    READ_CASES,
    GET_INPUTS,
    GET_GOLDEN,
    SUBMIT_OUTPUTS,
    VERIFY,
    RUN_SUITE,
    GET_RUN,
    CANCEL_RUN,
    LIST_RUNS,
    LIST_RESULTS,
    REPORT_RUN,
    SET_BASELINE,
    LIST_BASELINES,
    DELETE_BASELINE,
    COMPARE_RUNS,
)
