"""Cases defined by callers: reads them in the conformance workers, and checks their calls."""

from collections.abc import Callable, Mapping

from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case, Kind, canonical
from opserve_kernels.cases.readers.benchdnn import read_benchdnn
from opserve_kernels.cases.readers.miopen import read_miopen
from opserve_kernels.cases.readers.read import Read, Refused
from opserve_kernels.cases.reading import TEXT_CHARACTERS, drawn_case_of, parse_object, refusal
from opserve_kernels.cases.schema_form import arguments_of
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import DocumentedRules, PlanOptions
from opserve_kernels.profiles import DEFAULT_PROFILE, PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_server.calls import malformed
from opserve_server.conformance.answers import CasesRead, Definition, RefusedLine
from opserve_server.conformance.calls import ReadCases

LINES_LIMIT = 400
"""Lines of a request, and cases made from them. That many take a conformance worker one second, and
fit a gRPC message of 4 MiB with the longest sources and most layouts."""
_PLACE = "definition"


def own_case(definition: str, documented_rules: DocumentedRules = DocumentedRules.WARN) -> Case:
    """The case of a definition.

    Args:
        definition: JSON.
        documented_rules: Answer of the sessions that run the case to a call that breaks a rule of
            the vendor's page alone. Without a session, WARN: such a call is a valid case both with
            "PASS" and with the rule's code.

    Raises:
        InvalidArgument: 100000, it is no definition, or its call does not have the stated outcome.
    """
    try:
        return _own_case(definition, documented_rules)
    except InvalidArgument as error:
        raise malformed(error.parameter, given=error.given, allowed=error.allowed) from None


def cases_in(request: ReadCases) -> CasesRead:
    """Cases made from lines; the request has been checked."""
    setting = Setting(
        profile=request.profile or DEFAULT_PROFILE, kind=Kind(request.fill or Kind.INTEGER)
    )
    read = FORMS[request.form](request.text, setting, LINES_LIMIT)
    return CasesRead(
        definitions=[Definition(canonical(case.to_json())) for case in read.cases],
        refused=[
            RefusedLine(line=one.line, text=one.text, reason=one.reason) for one in read.refused
        ],
    )


def _own_case(definition: str, documented_rules: DocumentedRules) -> Case:
    case = drawn_case_of(parse_object(definition, _PLACE), _PLACE)
    operator, profile = OPERATORS[case.operator], PROFILES[case.profile]
    arguments = arguments_of(case, operator.schema)
    if case.profile not in operator.support:
        allowed = ", ".join(operator.support)
        raise refusal(f"{_PLACE}: profile", given=case.profile, allowed=allowed)
    try:
        options = PlanOptions(documented_rules=documented_rules)
        warned = operator.plan(arguments, profile, options).warnings
    except InvalidArgument as error:
        name = error.status.name
        if name == case.expect:
            return case
        given, allowed = f"a call that is refused ({error.message})", f'"expect": "{name}"'
        raise refusal(_PLACE, given=given, allowed=f"{allowed}, or one that succeeds") from error
    if case.is_refused and case.expect not in {broken.status.name for broken in warned}:
        raise refusal(f"{_PLACE}: expect", given=case.expect, allowed='"PASS": it is not refused')
    for name, output in case.outputs.items():
        if output.tensor().repeats_elements:
            steps, allowed = list(output.strides or ()), "one place for each element"
            raise refusal(f"{_PLACE}: tensors.{name}.strides", given=steps, allowed=allowed)
    return case


def _read_json(text: str, _: Setting, most: int) -> Read:
    """Reads definitions, one per line, after an optional header of a suite."""
    cases: dict[str, Case] = {}
    refused: list[Refused] = []
    for number, line in enumerate(text.splitlines()[:most], 1):
        if not line.strip() or (number == 1 and _is_header(line)):
            continue
        try:
            found = own_case(line)
        except InvalidArgument as error:
            text = line[:TEXT_CHARACTERS]
            refused.append(Refused(line=number, text=text, reason=error.message))
        else:
            cases[found.id] = found
    return Read(cases=tuple(cases.values()), refused=tuple(refused))


def _is_header(line: str) -> bool:
    try:
        return "suite" in parse_object(line, _PLACE)
    except InvalidArgument:
        return False


FORMS: Mapping[str, Callable[[str, Setting, int], Read]] = {
    "benchdnn": read_benchdnn,
    "miopen": read_miopen,
    "json": _read_json,
}
"""Readers by the name of their format."""
