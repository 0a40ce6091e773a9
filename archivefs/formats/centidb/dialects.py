"""The dialects of the store, as the separate axes on which they differ (specification §1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one generation of the software wrote."""

    name: str
    open_strings: bool = False
    """A string ends at the next kind byte and not with a marked byte of its own."""
    inverted: bool = False
    """The bytes of negative numbers are inverted, so that they sort as numbers."""
    one_table: bool = False
    """Metadata is in table 9, one row an attribute, and not in tables 0, 1 and 2."""
    numbered: bool = True
    """A value starts with the number of its packer."""
    readable: bool = True
    """Keys can be told apart; not so in what was written at one time."""

    @property
    def tables(self) -> tuple[int, ...]:
        """The numbers of the metadata tables."""
        return (9,) if self.one_table else (0, 1, 2)


CENTIDB = Dialect(name="centidb")
ACID_PREFIXED = Dialect(name="acid", open_strings=True, inverted=True, one_table=True)
ACID_BARE = Dialect(name="acid", open_strings=True, inverted=True, one_table=True, numbered=False)
LOSSY = Dialect(name="centidb-2013-08", one_table=True, readable=False)
"""For some days strings were written so that different ones have the same bytes."""

BY_NAME = {"centidb": CENTIDB, "acid": ACID_BARE}
"""For the key coding, where the two kinds of acid are the same."""
