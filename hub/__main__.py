"""The command `hubd`: dispatch, and nothing heavy above it, since `hubd connect` is started by hosts all the time."""

import sys


def main() -> int:
    """Run the command line in `sys.argv`; the exit code."""
    if sys.argv[1:2] == ["connect"]:
        from hub.shim.main import run

        return run(sys.argv[2:])
    from hub.cli.main import main as command

    return command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
