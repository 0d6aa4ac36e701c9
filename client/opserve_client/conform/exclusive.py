"""An exclusive lock on an open file; it ends when the file is closed or the process ends."""

import os
import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    # Windows denies other handles access to a locked byte, so the byte is beyond the end of any
    # record. The C runtime accepts no position of 2 GiB or more.
    _BEHIND_BYTES = 1 << 30

    def lock(file: IO[str]) -> None:
        """Locks a file that is open for writing, without waiting.

        Raises:
            OSError: Another process or another handle has the lock.
        """
        os.lseek(file.fileno(), _BEHIND_BYTES, os.SEEK_SET)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        os.lseek(file.fileno(), 0, os.SEEK_END)

else:
    import fcntl

    def lock(file: IO[str]) -> None:
        """Locks a file that is open for writing, without waiting.

        Raises:
            OSError: Another process or another handle has the lock.
        """
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
