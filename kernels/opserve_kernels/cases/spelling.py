"""Data types and formats as a client spells them: by name, as the vendor does, or by its number."""

from opserve_kernels.tensor import DataType, Format, member_of


def data_type_name(spelling: object) -> str | None:
    """The name of FLOAT, ACL_FLOAT or 0; None where there is none."""
    found = member_of(spelling, DataType)
    return None if found is None else found.value


def format_name(spelling: object) -> str | None:
    """The name of NCHW, ACL_FORMAT_NCHW or 0; None where there is none."""
    found = member_of(spelling, Format)
    return None if found is None else found.value
