#!/usr/bin/env bash
# Sets up what is missing and runs every test. Needs rustup, and root (or sudo) only where something must be installed.
#
#   CARGO_TARGET_DIR        a target folder to share between checkouts
#   RELAYBUS_TEST_POSTGRES  a PostgreSQL of your own (postgres://...), instead of one that the tests start
#   RELAYBUS_TEST_SKIP      backends to skip by name, such as `postgres`; what is skipped is counted
set -euo pipefail
cd "$(dirname "$0")/.."

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

needs_postgres() { [ -z "${RELAYBUS_TEST_POSTGRES:-}" ] && [[ ",${RELAYBUS_TEST_SKIP:-}," != *,postgres,* ]]; }

step "setup"
rustup target list --installed | grep -qx wasm32-wasip2 || rustup target add wasm32-wasip2
command -v cc >/dev/null || install_package build-essential
command -v npm >/dev/null || install_package npm
if needs_postgres && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then install_package postgresql; fi
if needs_postgres && ! command -v pgbouncer >/dev/null; then install_package pgbouncer; fi

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
