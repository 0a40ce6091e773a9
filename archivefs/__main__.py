"""``python -m archivefs`` is ``archivefs``."""

import sys

from archivefs.cli import main

sys.exit(main())
