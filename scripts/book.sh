#!/bin/sh
# Makes a book of the documents: pages that can be searched, in target/book.
#
#   scripts/book.sh [FOLDER]
#
# docs/SUMMARY.md says what is in it and in which order. Builds mdbook where it is missing, once. Fails if a page that the book should have is not in it, or a
# link within the book leads nowhere.
set -eu
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
out=${1:-target/book}
version=0.5.4
tools=$HOME/.local/share/fairspan
PATH="$PATH:$tools/bin"
if ! mdbook --version 2>/dev/null | grep -q "v$version\$"; then
    echo 'mdbook is missing; building it, once'
    (cd / && CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64 \
        CARGO_PROFILE_RELEASE_DEBUG=0 timeout 1800 cargo install --quiet --locked --root "$tools" --version "$version" \
        --no-default-features --features search mdbook)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
cp -R docs/. "$work/src"
cp README.md DESIGN.md PAPERS.md CONTRIBUTING.md CHANGELOG.md "$work/src"
# In the book all pages lie beside each other.
sed -i 's|](docs/|](|g; s|](\.\./\([A-Z]*\.md\)|](\1|g' "$work"/src/*.md
cat >"$work/book.toml" <<EOF
[book]
title = "Fairspan"
language = "en"
src = "src"

[output.html]
no-section-label = true
# Two hyphens stay what they are, also in the names of headings, as on GitHub.
smart-punctuation = false
EOF
mdbook build "$work" --dest-dir "$work/book" >/dev/null
pages=$(sed -n 's/^[- ]*\[.*\](\(.*\)\.md)$/\1/p' "$work/src/SUMMARY.md")
for page in docs/*.md; do
    page=$(basename "$page" .md)
    [ "$page" = SUMMARY ] || printf '%s\n' "$pages" | grep -qx "$page" || { echo "book: docs/$page.md is not in docs/SUMMARY.md" >&2; exit 1; }
done
missing=$(
    for page in $pages; do
        # As mdbook names it.
        [ "$page" = README ] && page=index
        [ -e "$work/book/$page.html" ] || { echo "no page $page"; continue; }
        grep -o 'href="[^":]*\.html[^"]*"' "$work/book/$page.html" | sed 's/href="//; s/"$//' | sort -u | while read -r link; do
            file=${link%%#*} anchor=${link#"$file"} anchor=${anchor#\#}
            [ -e "$work/book/$file" ] || { echo "$page: $link"; continue; }
            [ -z "$anchor" ] || grep -q "id=\"$anchor\"" "$work/book/$file" || echo "$page: $link"
        done
    done
)
[ -z "$missing" ] || { printf 'book: these lead nowhere:\n%s\n' "$missing" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$(dirname "$out")"
cp -R "$work/book" "$out"
echo "$out/index.html"
