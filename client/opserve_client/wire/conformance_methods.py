"""Calls of conformance: messages, gRPC names and REST routes, in one table."""

from dataclasses import replace
from typing import Any, TypeVar

from opserve.v1 import conformance_service_pb2 as conformance
from opserve_client.wire.methods import Method

ArchiveT = TypeVar("ArchiveT", conformance.GetInputsResponse, conformance.GetGoldenResponse)
"""A piece of an .npz file."""
_SUITES = "/v1/conformance/suites"
_CASES = _SUITES + "/{suite}/cases"
_CASE = _CASES + "/{case}"
_OWN = "/v1/conformance/cases"
_RUNS = "/v1/conformance/runs"
_RUN = _RUNS + "/{run}"
_BASELINES = "/v1/conformance/baselines"

LIST_SUITES = Method(
    "ConformanceService/ListSuites",
    conformance.ListSuitesRequest,
    conformance.ListSuitesResponse,
    "GET",
    _SUITES,
)
LIST_CASES = Method(
    "ConformanceService/ListCases",
    conformance.ListCasesRequest,
    conformance.ListCasesResponse,
    "GET",
    _CASES,
)
GET_CASE = Method(
    "ConformanceService/GetCase",
    conformance.GetCaseRequest,
    conformance.GetCaseResponse,
    "GET",
    _CASE,
)
READ_CASES = Method(
    "ConformanceService/ReadCases",
    conformance.ReadCasesRequest,
    conformance.ReadCasesResponse,
    "POST",
    _OWN + ":read",
)
GET_INPUTS = Method(
    "ConformanceService/GetInputs",
    conformance.GetInputsRequest,
    conformance.GetInputsResponse,
    "GET",
    _CASE + "/inputs",
)
GET_GOLDEN = Method(
    "ConformanceService/GetGolden",
    conformance.GetGoldenRequest,
    conformance.GetGoldenResponse,
    "GET",
    _CASE + "/golden",
)
SUBMIT_OUTPUTS = Method(
    "ConformanceService/SubmitOutputs",
    conformance.SubmitOutputsRequest,
    conformance.SubmitOutputsResponse,
    "POST",
    _CASE + ":submit",
)
VERIFY = Method(
    "ConformanceService/Verify",
    conformance.VerifyRequest,
    conformance.VerifyResponse,
    "POST",
    _CASE + ":verify",
)
GET_OWN_INPUTS = replace(GET_INPUTS, verb="POST", route=_OWN + ":inputs")
GET_OWN_GOLDEN = replace(GET_GOLDEN, verb="POST", route=_OWN + ":golden")
SUBMIT_OWN_OUTPUTS = replace(SUBMIT_OUTPUTS, route=_OWN + ":submit")
VERIFY_OWN = replace(VERIFY, route=_OWN + ":verify")
RUN_SUITE = Method(
    "ConformanceService/RunSuite",
    conformance.RunSuiteRequest,
    conformance.RunSuiteResponse,
    "POST",
    _RUNS,
)
GET_RUN = Method(
    "ConformanceService/GetRun",
    conformance.GetRunRequest,
    conformance.GetRunResponse,
    "GET",
    _RUN,
)
CANCEL_RUN = Method(
    "ConformanceService/CancelRun",
    conformance.CancelRunRequest,
    conformance.CancelRunResponse,
    "POST",
    _RUN + ":cancel",
)
LIST_RUNS = Method(
    "ConformanceService/ListRuns",
    conformance.ListRunsRequest,
    conformance.ListRunsResponse,
    "GET",
    _RUNS,
)
LIST_RESULTS = Method(
    "ConformanceService/ListResults",
    conformance.ListResultsRequest,
    conformance.ListResultsResponse,
    "GET",
    _RUN + "/results",
)
REPORT_RUN = Method(
    "ConformanceService/ReportRun",
    conformance.ReportRunRequest,
    conformance.ReportRunResponse,
    "POST",
    _RUNS + ":report",
)
SET_BASELINE = Method(
    "ConformanceService/SetBaseline",
    conformance.SetBaselineRequest,
    conformance.SetBaselineResponse,
    "POST",
    _BASELINES,
)
LIST_BASELINES = Method(
    "ConformanceService/ListBaselines",
    conformance.ListBaselinesRequest,
    conformance.ListBaselinesResponse,
    "GET",
    _BASELINES,
)
DELETE_BASELINE = Method(
    "ConformanceService/DeleteBaseline",
    conformance.DeleteBaselineRequest,
    conformance.DeleteBaselineResponse,
    "DELETE",
    _BASELINES + "/{name}",
)
COMPARE_RUNS = Method(
    "ConformanceService/CompareRuns",
    conformance.CompareRunsRequest,
    conformance.CompareRunsResponse,
    "GET",
    _RUNS + ":compare",
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
