//! `fairspan keygen` and `fairspan pubkey`: keys, in WireGuard's format.

use crate::exit::{BadInput, Outcome};
use fairspan_live::secure::{OsEntropy, PresharedKey, PrivateKey};
use std::io::Read;

/// Print a new private key.
#[derive(clap::Args)]
pub(crate) struct KeygenArgs {
    /// Print a new preshared key instead: the same for both ends, beside their own keys
    #[arg(long)]
    psk: bool,
}

/// Read a private key from standard input and print its public key.
#[derive(clap::Args)]
pub(crate) struct PubkeyArgs {}

pub(crate) fn keygen(args: &KeygenArgs) -> anyhow::Result<Outcome> {
    if args.psk {
        println!("{}", PresharedKey::generate(&mut OsEntropy::new()).to_base64().as_str());
    } else {
        println!("{}", PrivateKey::generate(&mut OsEntropy::new()).to_base64().as_str());
    }
    Ok(Outcome::Done)
}

pub(crate) fn pubkey(_: &PubkeyArgs) -> anyhow::Result<Outcome> {
    let mut text = String::new();
    std::io::stdin().lock().take(4096).read_to_string(&mut text)?;
    let key: PrivateKey = text.trim().parse().map_err(|e| {
        BadInput(format!("standard input: {e}; give 44 characters of base64, as `fairspan keygen` prints them"))
    })?;
    println!("{}", key.public_key());
    Ok(Outcome::Done)
}
