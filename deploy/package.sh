#!/usr/bin/env bash
# Builds the Debian package of this machine's architecture into target/debian. Takes cargo-deb (cargo install cargo-deb).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}

cargo build --release --locked -p pagesniff
package=$target/release/package
rm -rf "$package"
mkdir -p "$package/man"
"$target/release/pagesniff" generate man --dir "$package/man"
for shell in bash zsh fish; do
    "$target/release/pagesniff" generate completions "$shell" > "$package/pagesniff.$shell"
done
gzip --best --force --no-name "$package"/man/*.1
cargo deb --no-build --strip --locked -p pagesniff --output target/debian/ "$@"
