"""The median of a row."""

from dataclasses import dataclass

from torch import Tensor

from surrogates.sorting.order_statistic import OrderStatistic, SortedValues
from surrogates.sorting.values import to_last


@dataclass(frozen=True)
class Median(OrderStatistic):
    """median(x) = x_(m), m = (n - 1) // 2, of the sorted entries x_(0) .. x_(n-1) along `dim`.

    Shape (..., n, ...) to (..., ...), `dim` removed; of an even number of entries the lower of the two in the middle,
    as torch.median (Quantile(0.5) is their mean). The derivative is exact almost everywhere: that of the entry itself.
    Ties: `minimum_norm` shares it evenly among the entries that are equal to the median, `first` gives it to the one
    whose place is m if tied entries stay in their order. Infinite entries (masks) are legal. A row with a NaN is NaN.
    proxy and smooth: the smooth sort's value (SoftSort; forms `neural_sort` and `network` as for sort, the last one
    monotone). rewrite: the sorting network's, exact up to the rounding of the larger magnitude.
    Raises IndexError for an empty row.
    """

    dim: int = -1

    def from_sorted(self, x: Tensor, sort: SortedValues) -> Tensor:
        n = x.shape[self.dim]
        if n == 0:
            raise IndexError("the median of a row needs an entry in it, it has none")
        middle = (n - 1) // 2
        return sort(to_last(x, self.dim), slice(middle, middle + 1)).squeeze(-1)
