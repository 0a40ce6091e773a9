"""Idents that lead back: a number of 48 bits from which a node is found again by one query, without a table.

Used by ``tree.py``.  Four bits say which sort of thing it is, the rest which one::

    47    44 43        32 31                 0
    [ sort ] [  extra   ] [        key       ]

======================  ==================================  =================================================
sort                    key                                 extra
======================  ==================================  =================================================
FIXED                   1 is the root; see ``Fixed``        0
WEB, REVISIONS, LATEST  resource id                         0
WEB_DIR, HISTORY_DIR    id of the first resource in it      depth: where to cut that resource's URL
REVISION, BY_ID …       revision id                         0
ROOT                    root id                             0
GROUP                   group id                            0 the directory, 1 the ``.json`` beside it
MEMBER                  resource id                         group id
ALIAS                   alias id                            0 in ``aliases/``, 1 the link in ``web/``,
                                                            above: a directory on the way there, by depth + 2
STATUS                  status (0) or revision id (1)       0 the directory, 1 a link
======================  ==================================  =================================================

The first resource of a directory can change when the project grows; the old number still leads to the same
directory.  A key or an extra that does not fit (a negative id, one above 2**32, a URL of more than four thousand
directories) gets a number from a bounded table, which leads back until it is pushed out.

Any thread may call; the lock guards the table.
"""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict
from typing import NamedTuple

from archivefs.errors import NotFound
from archivefs.tree import MAX_IDENT

KEY_BITS, EXTRA_BITS = 32, 12
MAX_KEY, MAX_EXTRA = (1 << KEY_BITS) - 1, (1 << EXTRA_BITS) - 1
SORT_SHIFT = KEY_BITS + EXTRA_BITS
MAX_ODD = 65_536
"""How many things that do not fit are remembered."""
_ODD_BIT = 1 << (SORT_SHIFT - 1)


class Sort(enum.IntEnum):
    """What sort of thing a node is."""

    FIXED = 0
    WEB = 1
    WEB_DIR = 2
    HISTORY_DIR = 3
    REVISIONS = 4
    REVISION = 5
    LATEST = 6
    BY_ID = 7
    ROOT = 8
    GROUP = 9
    MEMBER = 10
    ALIAS = 11
    FETCH_ERROR = 12
    STATUS = 13
    NO_COOKIE = 14


_SORTS = tuple(Sort)
"""By number: a call of the enumeration would cost more than all the rest."""


class Fixed(enum.IntEnum):
    """Nodes of which there is one."""

    TOP = 1
    WEB = 2
    HISTORY = 3
    BY_ID = 4
    ROOTS = 5
    GROUPS = 6
    ALIASES = 7
    ERRORS = 8
    FETCH_ERRORS = 9
    STATUSES = 10
    NO_COOKIES = 11
    SITE = 12
    PROJECT_JSON = 13
    WEB_NO_SCHEME = 14
    HISTORY_NO_SCHEME = 15


class Meaning(NamedTuple):
    """What an ident stands for."""

    sort: Sort
    key: int
    extra: int = 0


class Idents:
    """Numbers for things, and back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._odd: OrderedDict[int, Meaning] = OrderedDict()
        self._numbers: dict[Meaning, int] = {}
        self._next = _ODD_BIT

    def of(self, sort: Sort, key: int, extra: int = 0) -> int:
        """The ident of a thing."""
        if 0 <= key <= MAX_KEY and 0 <= extra <= MAX_EXTRA:
            return sort << SORT_SHIFT | extra << KEY_BITS | key
        return self._number(Meaning(sort, key, extra))

    def meaning(self, ident: int) -> Meaning:
        """What an ident stands for; raises NotFound if it was never given."""
        if not 0 < ident <= MAX_IDENT:
            raise NotFound
        sort = ident >> SORT_SHIFT
        if sort == Sort.FIXED and ident & _ODD_BIT:
            with self._lock:
                found = self._odd.get(ident)
            if found is None:
                raise NotFound
            return found
        if sort >= len(_SORTS):
            raise NotFound
        return Meaning(_SORTS[sort], ident & MAX_KEY, ident >> KEY_BITS & MAX_EXTRA)

    def _number(self, meaning: Meaning) -> int:
        with self._lock:
            number = self._numbers.get(meaning)
            if number is None:
                number = self._numbers[meaning] = self._next
                self._next += 1
                if len(self._odd) == MAX_ODD:
                    del self._numbers[self._odd.popitem(last=False)[1]]
                self._odd[number] = meaning
            else:
                self._odd.move_to_end(number)
            return number
