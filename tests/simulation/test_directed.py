"""Machines take the same steps in every process."""

from pathlib import Path

import pytest

MACHINES = sorted(Path(__file__).parent.glob("*_machine.py"))


@pytest.mark.parametrize("machine", MACHINES, ids=[path.stem for path in MACHINES])
def test_a_machine_chooses_by_index(machine: Path) -> None:
    """Draws from lists of objects differ from process to process, as their hashes do."""
    found = [name for name in ("sampled_from", "st.data()") if name in machine.read_text()]
    assert not found, "draw with simulation.choices"
