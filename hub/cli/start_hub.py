"""Start of the hub in the background, as `hubd connect` does it."""

import select
import time

from hub.cli.subcommand import UsageError


def start_hub() -> bool:
    """Start the hub of this user unless one runs; True if it was started. Returns once it listens.

    Raises:
        UsageError: it did not start, or does not listen in time.
        ConfigError: its directories cannot be used.
    """
    from config.hub_paths import runtime_dir
    from hub.shim.start_daemon import DaemonStart, Unavailable

    attempt = DaemonStart(str(runtime_dir()))
    started = False
    try:
        while (connection := attempt.step()) is None:
            started = started or attempt.child is not None
            if attempt.child is not None:
                select.select([attempt.child], [], [], attempt.pause_s)
            else:
                time.sleep(attempt.pause_s)  # noqa: TID251 - nothing here runs under trio
        connection.close()
    except (Unavailable, OSError) as error:
        raise UsageError(str(error)) from None
    finally:
        attempt.close()
    return started
