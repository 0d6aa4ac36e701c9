"""The sums of an output: their length, their roundings, and their cost."""

from dataclasses import dataclass

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.sizing import sums_exactly
from opserve_kernels.profiles import PROFILES
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

_16_BITS = (DataType.FLOAT16, DataType.BF16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The sums of an output of a case.

    Attributes:
        output: Name of the tensor.
        terms: Products in the longest sum, K.
        accumulator: The dtype of partial sums, as NumPy spells it.
        roundings: The dtypes that a complete sum is rounded to before its own, in order.
        saturates: Whether a result beyond FLOAT16's range becomes its greatest value.
        axes: Meaning of each axis: "n", "c", "d", "h", "w"; for a weight "k", "c", "kd", "kh",
            "kw".
        multiply_adds: Products in all sums together.
        is_exact: Whether every order of summing gives the same bits, rounded once to the output's
            dtype: integers that are rounded to no narrower dtype.
    """

    output: str
    terms: int
    accumulator: str
    roundings: tuple[str, ...]
    saturates: bool
    axes: tuple[str, ...]
    multiply_adds: int
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """The products of an output.

    Attributes:
        axes: Meaning of each axis of the output, as in Sum.
        terms: Products in the longest sum, K.
        multiply_adds: Products in all sums together.
        passed: The dtype that a sum is rounded to first.
        clamps: Whether a FLOAT16 result stays within its range on every profile.
    """

    axes: tuple[str, ...]
    terms: int
    multiply_adds: int
    passed: DataType = DataType.FLOAT
    clamps: bool = False


def sum_of(case: Case, output: str, products: Products, *, gradient: str) -> Sum:
    """An output's sums, with the properties that follow from profile and dtypes.

    Args:
        case: The call.
        output: Name of the tensor.
        products: Products of the output.
        gradient: The input that is a factor of every product.
    """
    profile, dtype = PROFILES[case.profile], case.tensors[output].dtype
    narrowed = not profile.is_reference and products.passed in _16_BITS and products.passed != dtype
    clamps = products.clamps and dtype == DataType.FLOAT16
    is_half = DataType.FLOAT16 in {dtype, products.passed if narrowed else dtype}
    return Sum(
        output=output,
        terms=products.terms,
        accumulator="float64" if profile.is_reference else "float32",
        roundings=(NUMPY_DTYPES[products.passed].name,) if narrowed else (),
        saturates=clamps or (profile.saturates and is_half),
        axes=products.axes,
        multiply_adds=products.multiply_adds,
        is_exact=not narrowed and sums_exactly(case.inputs, products.terms, gradient=gradient),
    )
