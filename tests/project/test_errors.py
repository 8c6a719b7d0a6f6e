"""Errors: one sentence each, standard exceptions as well, whole after a trip between processes."""

import pickle

import pytest

from molrec_convert import errors

ERRORS = [
    (errors.FormatError("a.dump", "line 7", found="3 fields", expected="5", hint="see the docs"), ValueError),
    (errors.ContractError("system/atoms", "has no count", found="nothing"), ValueError),
    (errors.MissingInputError("a.dump"), FileNotFoundError),
    (errors.UnsupportedError("not yet"), NotImplementedError),
    (errors.LossError("would lose something"), ValueError),
    (errors.UsageError("there is no option"), ValueError),
    (errors.LayoutChanged("ragged", "ids change"), errors.MolrecError),
]


@pytest.mark.parametrize(("error", "standard"), ERRORS, ids=lambda value: type(value).__name__)
def test_errors_are_of_one_tree_and_standard_too(error, standard):
    assert isinstance(error, errors.MolrecError)
    assert isinstance(error, standard)


@pytest.mark.parametrize("error", [error for error, _ in ERRORS], ids=lambda value: type(value).__name__)
def test_errors_survive_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_the_sentence():
    assert str(ERRORS[0][0]) == "a.dump, line 7: found 3 fields, expected 5; see the docs"
    assert str(ERRORS[1][0]) == "system/atoms: has no count: found nothing"
    assert str(ERRORS[2][0]) == "there is no file or directory a.dump"
