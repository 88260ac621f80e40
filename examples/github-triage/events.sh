#!/usr/bin/env bash
# Prints GitHub's published webhook examples (npm package @octokit/webhooks-examples) as NDJSON for `relaybus-host publish --ndjson -`.
#
#   events.sh                    issues and pull requests: what the handler `triage` subscribes to
#   events.sh push release       these kinds of webhook
#   events.sh --all              all of them
#
# Needs npm and node, and the npm registry once.
set -euo pipefail

version=7.6.1

for tool in npm node; do
    if ! command -v "$tool" >/dev/null; then
        echo "events.sh: expected \`$tool\` on this machine, found none; install Node.js 18 or later, or use sample.ndjson beside this script" >&2
        exit 2
    fi
done

if [ $# -eq 0 ]; then
    set -- issues pull_request
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" "@octokit/webhooks-examples@$version" >&2; then
    echo "events.sh: npm could not install @octokit/webhooks-examples@$version" >&2
    exit 1
fi

node - "$folder/node_modules/@octokit/webhooks-examples" "$@" <<'JS'
const [folder, ...kinds] = process.argv.slice(2);
const lines = [];
for (const { name, examples } of require(folder)) {
    if (!kinds.includes('--all') && !kinds.includes(name)) continue;
    for (const data of examples) {
        // `github.push` has no action.
        const topic = ['github', name, data.action].filter(Boolean).map((token) => token.replace(/[^A-Za-z0-9_-]/g, '-')).join('.');
        const number = (data.issue ?? data.pull_request)?.number;
        const repository = data.repository?.full_name;
        const key = number === undefined ? repository : `${repository}#${number}`;
        lines.push(JSON.stringify({ topic, key, headers: { 'x-github-event': name }, data }));
    }
}
if (lines.length === 0) {
    console.error(`events.sh: expected a kind of webhook such as \`issues\`, got \`${kinds.join(' ')}\``);
    process.exitCode = 2;
} else {
    process.stdout.write(lines.join('\n') + '\n');
}
JS
