"""Descriptions of operators as messages."""

from opserve.v1 import tensor_pb2
from opserve.v1.operator_description_pb2 import (
    ErrorDescription,
    LimitDescription,
    OperatorDescription,
    ParameterDescription,
    SupportDescription,
)
from opserve_kernels.description import OperatorDescription as Description
from opserve_kernels.description import Parameter, SupportRow
from opserve_kernels.tensor import DataType
from opserve_server.grpc_api.convert import values_of


def description_of(description: Description) -> OperatorDescription:
    """An operator as a message."""
    return OperatorDescription(
        name=description.name,
        call=description.call,
        family=description.family,
        revision=description.revision,
        parameters=map(_parameter, description.parameters),
        support=map(_support, description.support),
        limits=[LimitDescription(**values_of(limit)) for limit in description.limits],
        errors=[ErrorDescription(**values_of(error)) for error in description.errors],
        documented_rules=description.documented_rules,
        header=description.header,
    )


def _parameter(parameter: Parameter) -> ParameterDescription:
    return ParameterDescription(
        name=parameter.name,
        kind=parameter.kind,
        written=parameter.written,
        description=parameter.description,
        members=map(_parameter, parameter.members),
    )


def _support(row: SupportRow) -> SupportDescription:
    return SupportDescription(
        profile=row.profile,
        dtypes=[_data_type(dtype) for dtype in row.dtypes],
        source_only=[_data_type(dtype) for dtype in row.source_only],
        notes=row.notes,
    )


def _data_type(dtype: DataType) -> tensor_pb2.DataType.ValueType:
    return tensor_pb2.DataType.Value(f"DATA_TYPE_{dtype}")
