"""A mutant whose target has gone changes nothing, and would be found by no test, or by any."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutants.mutants import MUTANTS, Part
from tests.mutants.sources import file_of_test, target_of

NAMES = [mutant.name for mutant in MUTANTS]


def test_there_are_ten_of_each_part():
    assert Counter(dict.fromkeys(Part, 10)) == Counter(mutant.part for mutant in MUTANTS)
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_the_text_of_a_mutant_stands_once(mutant):
    assert target_of(mutant)
    assert mutant.old != mutant.new


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_the_test_of_a_mutant_is_there(mutant):
    assert file_of_test(mutant)
