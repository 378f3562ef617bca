"""A loop in a test reports every value that fails."""

import pytest

from each import each


def test_all_values_that_fail_are_reported_with_their_messages() -> None:
    seen = []

    @each("n, name", [(1, "one"), (2, "two"), (3, "three")])
    @each("factor", [1, 10])
    def check(n: int, name: str, factor: int) -> None:
        seen.append(n * factor)
        if n == 2:
            with pytest.raises(ValueError, match="never"):
                pass
        assert name != "three", "not three"

    with pytest.raises(pytest.fail.Exception) as failed:
        check()
    assert seen == [1, 10, 2, 20, 3, 30]
    for words in ("2 of 3", "(2, 'two')", "DID NOT RAISE", "(3, 'three')", "factor = 10: AssertionError: not three"):
        assert words in str(failed.value)
    with pytest.raises(AssertionError, match="no n"):
        each("n", [])(lambda n: None)()
