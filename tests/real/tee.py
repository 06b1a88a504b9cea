"""A recorder between a client and its stdio server: tee.py FILE COMMAND...

Every byte is passed on as it is. Every line is first appended to FILE, as `PID > LINE` (to the server) or `PID < LINE`
(from it), so that a request stands before its answer. For each side it behaves as the other side: an end of input is
passed on, and the exit code is the server's. The standard library only, as it runs in every interpreter.
"""

import os
import signal
import sys
import threading

CHUNK_BYTES = 1 << 16


def pump(source, target, note):
    """Pass on until one side ends, then end the other."""
    begun = b""
    try:
        while data := os.read(source, CHUNK_BYTES):
            *lines, begun = (begun + data).split(b"\n")
            for line in lines:
                note(line)
            while data:
                data = data[os.write(target, data) :]
    except OSError:  # whoever reads what is passed on has gone
        pass
    os.close(source)
    os.close(target)


def main():
    file, *command = sys.argv[1:]
    record = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    child_in, to_child = os.pipe()
    from_child, child_out = os.pipe()
    child = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, child_in, 0), (os.POSIX_SPAWN_DUP2, child_out, 1)],
        setsigdef=[signal.SIGPIPE],
    )
    os.close(child_in)
    os.close(child_out)

    def noting(direction):
        return lambda line: os.write(record, b"%d %b %b\n" % (os.getpid(), direction, line))

    threading.Thread(target=pump, args=(0, to_child, noting(b">")), daemon=True).start()
    pump(from_child, 1, noting(b"<"))
    os._exit(abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


main()
