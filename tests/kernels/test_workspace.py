"""Parts of a workspace are aligned and do not overlap; parts of finished stages are reused."""

from opserve_kernels.workspace import Workspace


def test_parts_are_contiguous() -> None:
    workspace = Workspace()
    assert [workspace.reserve(count) for count in (1, 128, 129, 0, 1)] == [0, 128, 256, 512, 512]
    assert workspace.size_bytes == 5 * 512


def test_passed_results_are_reused_and_the_farthest_end_counts() -> None:
    workspace = Workspace()
    kept = workspace.reserve(1)
    with workspace.temporary():
        first, second = workspace.reserve(1), workspace.reserve(1)
    with workspace.temporary():
        again = workspace.reserve(1)
    assert [kept, first, second, again] == [0, 128, 256, 128]
    workspace.keep_all()
    assert workspace.reserve(1) == 384
    assert workspace.size_bytes == 4 * 512


def test_values_may_be_of_other_sizes() -> None:
    workspace = Workspace(value_bytes=8)
    assert [workspace.reserve(65), workspace.reserve(1)] == [0, 128]
    assert workspace.size_bytes == 3 * 512
