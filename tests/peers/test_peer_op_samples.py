"""PyTorch's own operator samples through grilly; the oracle is PyTorch 2.13 on the CPU (see op_samples.py)."""

from __future__ import annotations

import pytest
from tests.peers import op_samples, op_table

NAMES = op_samples.operators()
ENTRIES = op_samples.table()

#: PyTorch's own generator of samples for `pinv` calls its old `qr`, which warns once in a process.
pytestmark = pytest.mark.filterwarnings("ignore:torch.qr is deprecated:UserWarning")


@pytest.mark.parametrize("name", [n for n in NAMES if n in ENTRIES])
def test_all_samples_of_the_operator_agree(name):
    outcome = op_samples.run(name, NAMES[name], ENTRIES[name])
    assert not outcome.failures, "\n".join(outcome.failures[:5])
    assert outcome.passed


def test_the_tables_name_operators_that_exist_once():
    assert set(ENTRIES) <= set(NAMES)
    assert set(op_table.ABSENT) <= set(NAMES)
    assert not set(ENTRIES) & set(op_table.ABSENT)


def test_at_least_three_hundred_names_are_covered():
    assert len(ENTRIES) >= 300
