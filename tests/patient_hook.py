"""The hook as hosts run it, without its hurry: `python -I -S patient_hook.py SOURCE [OPTION…]`.

For tests of what a hook does. A busy machine may need longer than a hook takes for anything, and
then the event waits in the spool, which is right and not what those tests ask.

With `--limited` before the source it gives up waiting when a hook does, and is patient only in
leaving the event in the spool, for which a hook has a third of a second.
"""

import sys

if __name__ == "__main__":
    limited = sys.argv[1] == "--limited"
    source, *options = sys.argv[1 + limited :]
    sys.path.append(source)
    from zapomni_cli import record
    from zapomni_core.infra import git
    from zapomni_core.modules.observations import spool

    if limited:
        record.LIMIT, record.LAST_LIMIT, record.GRACE = (
            60 + seconds for seconds in (record.LIMIT, record.LAST_LIMIT, record.GRACE)
        )
    else:
        record.LIMIT = record.LAST_LIMIT = 120.0
        record.READ_LIMITS = (60.0, 60.0)
        git.HOOK_SECONDS = 60.0
        spool.DRAIN_SECONDS = 60.0
    sys.exit(record.main(options, in_time=True))
