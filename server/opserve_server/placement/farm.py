"""Services of a farm by name, and what `opserve farm` requires before it starts any."""

import re
from collections.abc import Collection, Mapping

from opserve_kernels.errors import InvalidArgument
from opserve_kernels.profiles import PROFILES, profile_named
from opserve_kernels.user_input import choices
from opserve_server.addresses import host_and_port, is_loopback

LOCAL = "local"
"""Instead of the address of a Ray cluster: a Ray on this machine, until `opserve farm up` ends."""
AUTH_MODE = "RAY_AUTH_MODE"
"""Ray's variable for its authentication, and its one safe value."""
TOKEN = "token"  # noqa: S105  # the name of the mode
RAY_ENVIRONMENT = {AUTH_MODE: TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}
"""Variables that Ray reads when it is imported, unless they are set."""
_SERVICES_MAXIMUM = 1000
_COUNT = re.compile(r"(?P<profile>[a-z0-9]+)=(?P<count>[0-9]{1,4})")


class Refused(Exception):
    """The command cannot do its work; the message is one sentence for the user."""


def counts_of(given: Collection[str]) -> dict[str, int]:
    """Parses "ascend910b=2" into numbers of services by profile.

    Raises:
        Refused: One has another form, an unknown profile, or a profile that another one has.
    """
    counts: dict[str, int] = {}
    for text in given:
        found = _COUNT.fullmatch(text)
        if not found or int(found["count"]) > _SERVICES_MAXIMUM:
            raise Refused(
                f"{text!r} is no number of services: write PROFILE=N with N from 0 to "
                f"{_SERVICES_MAXIMUM}, such as ascend910b=2."
            )
        try:
            profile = profile_named(found["profile"]).name
        except InvalidArgument:
            allowed = choices(PROFILES, found["profile"])
            raise Refused(f"The profile {found['profile']!r} is none of {allowed}.") from None
        if profile in counts:
            raise Refused(f"{profile} is given twice: give each profile once.")
        counts[profile] = int(found["count"])
    return counts


def profile_of(name: str) -> str:
    """The profile of a service, by its name."""
    return name.rpartition("-")[0]


def names_of(profile: str, running: Collection[str]) -> list[str]:
    """The names of running services of a profile, by their numbers."""
    of_profile = [name for name in running if profile_of(name) == profile]
    return sorted(of_profile, key=lambda name: int(name.rpartition("-s")[2]))


def changes_to(counts: Mapping[str, int], running: Collection[str]) -> tuple[list[str], list[str]]:
    """The names of services to start and to drain; profiles that are not named stay as they are.

    A new service has the lowest free number, and those with the highest numbers end first.
    """
    start: list[str] = []
    drain: list[str] = []
    for profile, count in counts.items():
        present = names_of(profile, running)
        missing = max(count - len(present), 0)
        unused = (
            n for number in range(_SERVICES_MAXIMUM) if (n := f"{profile}-s{number}") not in present
        )
        start += [next(unused) for _ in range(missing)]
        drain += present[count:]
    return start, drain


def check_access(address: str, environment: Mapping[str, str]) -> None:
    """Checks the form of a Ray address, and the token mode of one that other machines reach.

    Raises:
        Refused: It is no address, or its Ray would accept everyone who reaches its ports.
    """
    if address == LOCAL:
        return
    try:
        host, _ = host_and_port(address)
        loopback = is_loopback(address)
    except ValueError:
        host, loopback = "", False
    if not host or "/" in host:
        raise Refused(
            f"{address!r} is no address of a Ray cluster: write HOST:PORT of its head, or {LOCAL}."
        )
    if not loopback and environment.get(AUTH_MODE, TOKEN).lower() != TOKEN:
        raise Refused(
            f"{AUTH_MODE} is {environment[AUTH_MODE]!r}, and other machines reach {address}, where "
            f"Ray runs code for everyone without a token: set {AUTH_MODE}={TOKEN} here and on "
            "every machine of the cluster."
        )
