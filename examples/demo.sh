#!/usr/bin/env bash
# Runs the example handlers on the example events, in a temporary folder, with a SQLite file as store.
#
#   examples/demo.sh              a development build of the host
#   examples/demo.sh --release    a release build: slow to compile, fast to run
#   examples/demo.sh --keep       leaves the temporary folder, to look around
#
# Needs rustup and a C compiler (Debian, Ubuntu: `apt-get install build-essential`).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
examples=$root/examples
profile=debug
build_options=()
keep=

for argument in "$@"; do
    case $argument in
    --release) profile=release build_options=(--release) ;;
    --keep) keep=yes ;;
    *)
        echo "demo.sh: expected \`--release\` or \`--keep\`, got \`$argument\`" >&2
        exit 2
        ;;
    esac
done

step() {
    printf '\n\033[1m== %s\033[0m\n' "$*"
}

cd "$root"
# Cargo takes a relative folder from here, and the demo itself moves on.
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
if ! rustc --print target-libdir --target wasm32-wasip2 2>/dev/null | xargs -r test -d; then
    step "Adding the compiler's target for components"
    rustup target add wasm32-wasip2
fi

step "Building the host and the handlers (the first time takes some minutes)"
# Of the whole workspace, so that the tests build nothing twice.
cargo build --locked "${build_options[@]}" --workspace --bins
cargo build --locked --release --target wasm32-wasip2 --package order-mailer --package triage --package triage-counter

# `publish` and `run` below find the store by this variable.
folder=$(mktemp -d)
if [ -n "$keep" ]; then
    trap 'printf "\nThe store is left in %s\n" "$folder"' EXIT
else
    trap 'rm -rf "$folder"' EXIT
fi
cd "$folder"
export RELAYBUS_STORE=sqlite:$folder/demo.db
host=$target/$profile/relaybus-host
wasm=$target/wasm32-wasip2/release
handlers=("$wasm/order_mailer.wasm" "$wasm/triage.wasm" "$wasm/triage_counter.wasm")

step "Storing the handlers' subscriptions"
for handler in "${handlers[@]}"; do
    "$host" handlers add "$handler"
done

step "Publishing 8 orders and 12 webhooks"
"$host" publish --ndjson "$examples/order-mailer/events.ndjson"
"$host" publish --ndjson "$examples/github-triage/sample.ndjson"

step "Running the handlers until nothing is left to do"
"$host" run "${handlers[@]}" --until-idle

step "All deliveries"
"$host" deliveries list

# JSON output is one object a line.
buried=$("$host" deliveries list --json | sed -nE '/"status":"buried"/s/.*"id":"([^"]+)".*/\1/p')
step "One of those that were buried"
"$host" deliveries show "${buried%%$'\n'*}"
