"""The downstream side of the hub, and the composition root. Read in this order:

    relay           the host's end of one operation: progress and logs back to exactly the request they belong to
    router          one table from method to handler; the only way from a host's request to an upstream
    lookup          whose is what a request names, if the catalogue does not say it at once
    bridge          what an upstream may want in place of a result: input, a visit to a page, time (a package)
    reading         what hosts see of resources that are kept (`cache`), and how other reads come by the cache
    asking          what legacy hosts are asked, from question to answer
    welcome         what the hub says of itself
    catalog         what hosts see of all upstreams (offers: of one), and the way back
    lists           the same, brought up to date when a host asks, and how long it is good
    naming          one name or URI and back; uris, rewrite, apps beside it; seal: what only this hub can read
    notify          the one consumer of upstream changes: rebuild, swap, tell
    subscriptions   what hosts want to be told of unasked; listeners: the streams of modern hosts
    registry        who is attached; serving: one request; downstream: over lines; http_session: over legacy HTTP
    revival         what lets such a session outlive the hub; saving: how what is remembered gets on disk
    http_endpoint   what Streamable HTTP means in both eras; http_post: what a POST says by itself; http_answer,
                    http_refusal, resume, batch beside it
    replicas        this hub among others; whereabouts: which of them has what; notes: what is told of sessions
    switch          has a request answered by the hub it belongs to; forward: sends it there and its answer back
    http_server     HTTP/1.1 without MCP; http_connection, http_message, access, accept below it; http_crowd: who has
                    to go when too many connect
    hub             all of that wired together; front: its HTTP address (squatters: who else may be there); lines: its
                    unix socket, preamble there
    daemon          sockets, signals and drain around them; foreground: one host on standard input and output instead
    banner          what a hub says when it has begun, with entries to paste into hosts
    equipment       what either gives its hub to work with; signals: what stops them
    operator        what its user may see of it and have it do
    projects        what hosts at work in a project see beside; roots: where hosts work; workplaces: which project
                    that belongs to, and whether it is allowed
    reload          what becomes of all that when configuration files change; options: what is read then, and at first
    process         the hub as a process: it keeps to itself, and notices when it stands still; sockets, logs, trim
                    (memory given back), privileges (whether it is root) beside
    systemd         what a service manager hands over and is told; service: how the hub is installed as one
    cli, shim       what people and hosts start, by way of command or __main__; control, control_client between the CLI
                    and the daemon; control_answers: what may be answered; peers: who is at the other end
    show            what the CLI shows, as text; doctor: what is wrong, and what to do; arguments: of calls, from words
    pump            the shim's loop; recall, envelope, pipes, starter beside it, all without trio

Below them lie `hub.link` (channels, peers, the seam to `upstreams`) and, at the bottom, `hub.wire` (the protocol as
pure functions).

What always holds:

- operations cross in one place: `await upstream.call(operation, exchange)`, down by call and up by return; what hosts
  watch goes by `upstream.watch`, and changes come to whoever holds the watch;
- an id, token, cursor or session of one hop is never seen on another;
- shared state (catalogue, sessions, claims) changes only in functions without `await`, so none of it needs a lock;
- everything about the hub itself is answered without asking an upstream, and no list waits for one for long.
"""
