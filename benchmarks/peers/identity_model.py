"""The model that Triton serves: its output is its input. Triton's Python backend runs this file."""

from importlib import import_module
from typing import Any

_triton: Any = import_module("triton_python_backend_utils")  # part of Triton, without types


class TritonPythonModel:
    """The class that the backend looks for."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Returns a response for each request."""
        return [_response(request) for request in requests]


def _response(request: Any) -> Any:  # noqa: ANN401  # of Triton, without types
    array = _triton.get_input_tensor_by_name(request, "INPUT").as_numpy()
    return _triton.InferenceResponse(output_tensors=[_triton.Tensor("OUTPUT", array)])
