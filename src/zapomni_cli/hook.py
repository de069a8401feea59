"""What hosts run: `python -I -S …/zapomni_cli/hook.py`, no shell, no shim, no site packages.

Only this file is compiled at every call; all it imports comes from the bytecode cache.
"""

import gc
import os
import sys

if __name__ == "__main__":
    gc.disable()  # The process is over before there is anything to collect.
    # `-I -S` leaves the standard library alone on the path; our own folder goes behind it.
    sys.path.append(__file__.rsplit(os.sep, 2)[0])
    try:
        # For one function, which C has as well, `_sqlite3` loads functools, collections and what
        # these need: a tenth of a hook. Whatever needs functools later loads the real one.
        from _functools import _lru_cache_wrapper as wrap  # type: ignore[import-not-found]

        sys.modules["functools"] = functools = type(sys)("functools")
        vars(functools)["lru_cache"] = lambda size: lambda call: wrap(call, size, False, tuple)
        import _sqlite3  # noqa: F401
    except ImportError:
        pass  # Another Python's insides.
    finally:
        sys.modules.pop("functools", None)
    from zapomni_cli.record import main

    # The database is closed and all is written: tearing the interpreter down would only cost.
    os._exit(main(sys.argv[1:], in_time=True, installed=True))
