#!/bin/sh
# Python for aarch64 on an emulator; `make test-aarch64` puts it into .aarch64.
# It takes this script for its own program, so that processes which it starts are emulated, too.
here=$(readlink -f "$0")
root=$(dirname "$(dirname "$here")")/.aarch64
exec qemu-aarch64-static -L "$root" -0 "$here" "$root/usr/bin/python3.11" "$@"
