# Sourced, from the top directory: finds a Rust toolchain that is at least `rust-version` of Cargo.toml.
#
# One that is new enough is used as it is: rust-toolchain.toml asks for `stable`, and where rustup has a toolchain under
# another name it would download it, so the name is passed on. Sets `rust_missing` if there is none.

required=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Rivals of the benchmark that `make rivals` installed.
PATH="$PATH:$HOME/.local/share/fairspan/rivals/bin:/usr/local/sbin:/usr/sbin:/sbin"
export PATH

rust_missing=
# Outside the project, where rust-toolchain.toml has no say.
rust_found() { (cd / && cargo --version 2>/dev/null) | sed -n 's/^cargo \([0-9.]*\).*/\1/p'; }
new_enough() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$required" "$1" | sort -V | head -n 1)" = "$required" ]; }

if ! new_enough "$(rust_found)" && [ -x "$HOME/.cargo/bin/cargo" ]; then
    # rustup's, where the shell does not know it yet, or where the distribution's is older.
    PATH="$HOME/.cargo/bin:$PATH"
fi
found=$(rust_found)
if new_enough "$found"; then
    if [ -z "${RUSTUP_TOOLCHAIN:-}" ] && command -v rustup >/dev/null 2>&1; then
        RUSTUP_TOOLCHAIN=$(cd / && rustup show active-toolchain 2>/dev/null | awk 'NR == 1 { print $1 }')
        export RUSTUP_TOOLCHAIN
        [ -n "$RUSTUP_TOOLCHAIN" ] || unset RUSTUP_TOOLCHAIN
    fi
else
    rust_missing="Rust $required or newer (found: ${found:-none})"
fi
