#!/bin/sh
# Runs a command in a network with loopback alone, with processes that end with it, where this is allowed.
if unshare -n -p -f --mount-proc --kill-child true 2>/dev/null; then
    exec unshare -n -p -f --mount-proc --kill-child sh -c 'ip link set lo up && exec "$@"' sh "$@"
fi
exec "$@"
