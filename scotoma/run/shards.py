"""Which members one task of a fanned-out step takes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Shard:
    """A range of members, of every variant.

    Attributes:
        index: Number of the shard.
        members: Indices of the members.
    """

    index: int
    members: range

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read what `str` writes.

        >>> Shard.parse("1:5-9")
        Shard(index=1, members=range(5, 10))
        """
        match = re.fullmatch(r"(\d+):(\d+)-(\d+)", text)
        if match is None or int(match[2]) > int(match[3]):
            raise ValueError(f"a shard is INDEX:FIRST-LAST, got {text!r}")
        index, first, last = map(int, match.groups())
        return cls(index, range(first, last + 1))

    def __str__(self) -> str:
        return f"{self.index}:{self.members.start}-{self.members.stop - 1}"


def shards(members: int, count: int, stack: int = 1) -> list[Shard]:
    """Cut a population into ranges of nearly equal length.

    Args:
        members: Models of the population.
        count: Number of shards; fewer where there are fewer stacks.
        stack: Members that are trained as one, which no cut divides: `Config.stack_members`.

    >>> [str(shard) for shard in shards(10, 3)]
    ['0:0-3', '1:4-6', '2:7-9']
    >>> [str(shard) for shard in shards(12, 3, 5)], [str(shard) for shard in shards(12, 2, 5)]
    (['0:0-4', '1:5-9', '2:10-11'], ['0:0-9', '1:10-11'])
    """
    stacks = math.ceil(members / stack)
    size, spare = divmod(stacks, min(count, stacks))
    starts = [stack * (index * size + min(index, spare)) for index in range(min(count, stacks))]
    return [
        Shard(index, range(start, stop))
        for index, (start, stop) in enumerate(pairwise([*starts, members]))
    ]
