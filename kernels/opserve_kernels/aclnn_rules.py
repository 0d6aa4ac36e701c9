"""Rows of the error tables of aclnn operators."""

from opserve_kernels.operator import Rule, RuleOrigin
from opserve_kernels.status import Status

UNLISTED = "a product that the page does not list"


def null(parameter: str, broken: str = "missing", *, origin: RuleOrigin = RuleOrigin.BOTH) -> Rule:
    """A rule of 161001."""
    return Rule(
        status=Status.ACLNN_ERR_PARAM_NULLPTR, parameter=parameter, broken=broken, origin=origin
    )


def invalid(
    parameter: str,
    broken: str,
    *profiles: str,
    origin: RuleOrigin = RuleOrigin.BOTH,
    sentence: str = "",
) -> Rule:
    """A rule of 161002; its words end with the profiles if it holds on some only."""
    return Rule(
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
        broken=f"{broken} on {' and '.join(profiles)}" if profiles else broken,
        origin=origin,
        sentence=sentence,
        profiles=profiles,
    )


def on_page(parameter: str, broken: str, sentence: str, *profiles: str) -> Rule:
    """A rule of 161002 that only the vendor's page states, in the words of `sentence`."""
    return invalid(parameter, broken, *profiles, origin=RuleOrigin.PAGE, sentence=sentence)


def contradicted(parameter: str, broken: str, sentence: str, *profiles: str) -> Rule:
    """A rule of the page that a sample, a unit test or a client of the vendor's breaks."""
    origin = RuleOrigin.CONTRADICTED
    return invalid(parameter, broken, *profiles, origin=origin, sentence=sentence)


def unlisted(profile: str, sentence: str) -> Rule:
    """A rule of 161002: a product that only the vendor's source supports, not its page."""
    return Rule(
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter="profile",
        broken=f"{profile}, {UNLISTED}",
        origin=RuleOrigin.PAGE,
        sentence=sentence,
        profiles=(profile,),
    )
