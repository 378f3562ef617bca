"""The median of a row."""

from dataclasses import dataclass

from torch import Tensor

from surrogates.sorting.order_statistic import OrderStatistic, SortedValues
from surrogates.sorting.values import to_last


@dataclass(frozen=True)
class Median(OrderStatistic):
    """median(x) = x_(m), m = (n - 1) // 2, of the sorted entries x_(0) .. x_(n-1) along `dim`.

    Shape (..., n, ...) to (..., ...), `dim` removed. For an even n it is the lower of the two middle entries, as
    torch.median (Quantile(0.5) is their mean). Entries may be infinite (masks). A row with a NaN is NaN.
    The derivative is exact almost everywhere: that of the entry itself. Ties: `minimum_norm` shares it evenly among the
    entries equal to the median; `first` gives it to the entry at place m of a stable sort.
    proxy and smooth: the smooth sort's value (SoftSort; forms `neural_sort` and `network` as for sort, the last
    monotone).
    rewrite: the sorting network's value, exact up to the rounding of the larger magnitude.
    Raises IndexError if a row is empty.
    """

    dim: int = -1

    def from_sorted(self, x: Tensor, sort: SortedValues) -> Tensor:
        n = x.shape[self.dim]
        if n == 0:
            raise IndexError("the median needs rows of at least one entry, got an empty row")
        middle = (n - 1) // 2
        return sort(to_last(x, self.dim), slice(middle, middle + 1)).squeeze(-1)
