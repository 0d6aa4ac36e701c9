"""The declared numbers of dimensions of each operator are those of its samples."""

import pytest

from kernels.samples import REGISTRY_SAMPLES
from opserve_kernels.registry import OPERATORS


@pytest.mark.parametrize("name", OPERATORS)
def test_each_sample_has_the_dimensions_of_a_form_and_each_form_a_sample(name: str) -> None:
    operator, used = OPERATORS[name], set[str]()
    forms = {
        form: dict(zip(operator.tensor_fields, ranks, strict=True))
        for form, ranks in operator.ranks.items()
    }
    for sample in REGISTRY_SAMPLES[name]:
        given = {tensor: len(one.shape) for tensor, one in sample.tensors.items() if one}
        fitting = {form for form, ranks in forms.items() if given.items() <= ranks.items()}
        assert fitting, sample
        used |= fitting
    assert used == forms.keys()
